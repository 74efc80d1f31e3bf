-- A join of intervals, so that no bid is kept for ever: window_time is the last millisecond of the window, and a bid at
-- the very end of it counts, too.
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid AS b
JOIN (
  SELECT MAX(price) AS highest, window_time AS last_time
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, window_time
) AS h ON b.price = h.highest
WHERE b.date_time BETWEEN h.last_time - INTERVAL '9.999' SECOND AND h.last_time + INTERVAL '0.001' SECOND;
