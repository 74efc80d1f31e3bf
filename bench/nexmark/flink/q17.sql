SELECT auction, `day`,
       COUNT(*),
       COUNT(*) FILTER (WHERE price < 10000),
       COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000),
       COUNT(*) FILTER (WHERE price >= 1000000),
       MIN(price), MAX(price), AVG(price), SUM(price)
FROM (SELECT *, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS `day` FROM bid)
GROUP BY auction, `day`;
