CREATE TABLE side_input (key BIGINT, `value` STRING) WITH ('connector' = 'side-input', 'path' = '${folder}/side_input.csv');

CREATE VIEW bid_with_clock AS SELECT *, PROCTIME() AS clock FROM bid;

SELECT b.auction, b.bidder, b.price, b.date_time, s.`value`
FROM bid_with_clock AS b JOIN side_input FOR SYSTEM_TIME AS OF b.clock AS s ON MOD(b.auction, 10000) = s.key;
