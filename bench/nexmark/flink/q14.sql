CREATE TEMPORARY FUNCTION count_char AS 'flinkbuf.nexmark.CountChar';

SELECT auction, bidder, CAST(price * 0.908 AS DECIMAL(23, 3)) AS price,
       CASE WHEN HOUR(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN HOUR(date_time) <= 6 OR HOUR(date_time) >= 20 THEN 'nightTime'
            ELSE 'otherTime' END,
       date_time, extra, count_char(extra, 'c')
FROM bid
WHERE price * 0.908 > 1000000 AND price * 0.908 < 50000000;
