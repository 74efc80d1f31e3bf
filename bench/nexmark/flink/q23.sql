SELECT b.bidder, b.price, b.channel, b.url, b.extra,
       p.id, p.name, p.email_address, p.credit_card, p.city, p.state, p.extra,
       a.item_name, a.description, a.initial_bid, a.reserve, a.date_time, a.expires, a.seller, a.category, a.extra
FROM bid AS b JOIN person AS p ON b.bidder = p.id JOIN auction AS a ON a.seller = b.bidder;
