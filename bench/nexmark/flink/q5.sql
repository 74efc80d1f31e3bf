CREATE VIEW counts AS
SELECT auction, COUNT(*) AS num, window_start, window_end
FROM TABLE(HOP(TABLE bid, DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;

SELECT c.auction, c.num
FROM counts AS c
JOIN (
  SELECT MAX(num) AS highest, window_start, window_end FROM counts GROUP BY window_start, window_end
) AS h ON c.window_start = h.window_start AND c.window_end = h.window_end AND c.num = h.highest;
