-- The windows that are open when the input ends are dropped.
CREATE VIEW bid_with_clock AS SELECT bidder, PROCTIME() AS clock FROM bid;

SELECT bidder, COUNT(*), window_start, window_end
FROM TABLE(TUMBLE(TABLE bid_with_clock, DESCRIPTOR(clock), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
