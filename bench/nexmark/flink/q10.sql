CREATE TABLE files (auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP(3), extra STRING, dt STRING, hm STRING)
PARTITIONED BY (dt, hm)
WITH ('connector' = 'filesystem', 'path' = 'file://${folder}', 'format' = 'csv',
      'sink.partition-commit.trigger' = 'partition-time', 'sink.partition-commit.delay' = '1 min',
      'sink.partition-commit.policy.kind' = 'success-file',
      'partition.time-extractor.timestamp-pattern' = '$dt $hm:00',
      'sink.rolling-policy.rollover-interval' = '1 min', 'sink.rolling-policy.check-interval' = '1 min');

INSERT INTO files
SELECT auction, bidder, price, date_time, extra, DATE_FORMAT(date_time, 'yyyy-MM-dd'), DATE_FORMAT(date_time, 'HH:mm')
FROM bid;
