"""The events by the rules, one number after the other: what the generator has to make."""

import math

MASK = (1 << 64) - 1


class SplittableRandom:
    """Java's, as its documentation has it."""

    def __init__(self, seed):
        self.state = seed

    def next_state(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        return self.state

    def next_int(self):
        z = self.next_state()
        z = ((z ^ (z >> 33)) * 0x62A9D9ED799705F5) & MASK
        z = (((z ^ (z >> 28)) * 0xCB24D0A5C88C35B3) & MASK) >> 32
        return z - (1 << 32) if z >> 31 else z

    def next_double(self):
        z = self.next_state()
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 11) * 2.0**-53

    def below(self, bound):
        number = self.next_int()
        if bound & (bound - 1) == 0:
            return number & (bound - 1)
        half = (number & 0xFFFFFFFF) >> 1
        while half + bound - 1 - half % bound >= 1 << 31:
            half = (self.next_int() & 0xFFFFFFFF) >> 1
        return half % bound

    def word(self, most, special=" "):
        letters = []
        for _ in range(3 + self.below(most - 3)):
            letters.append(special if self.below(13) == 0 else chr(97 + self.below(26)))
        return "".join(letters).strip()

    def price(self):
        return math.floor(10.0 ** (self.next_double() * 6) * 100.0 + 0.5)


def pool():
    random, letters = SplittableRandom(1_000_001), []
    while len(letters) < 1 << 20:
        number = random.next_int()
        for _ in range(6):
            rest = int(math.fmod(number, 26))
            letters.append(chr(97 + rest))
            number = (number - rest) // 26
    return "".join(letters[: 1 << 20])


def channels():
    random = SplittableRandom(1_000_000)
    names = ["Google", "Facebook", "Baidu", "Apple"] + [f"channel-{number}" for number in range(10_000)]
    urls = []
    for place in range(len(names)):
        parts = "/".join(random.word(5, "_") for _ in range(3))
        url = f"https://www.nexmark.com/{parts}/item.htm?query=1"
        if place >= 4 and random.below(10) > 0:
            turned = sum(1 << (31 - bit) for bit in range(32) if (place - 4) >> bit & 1)
            signed = turned - (1 << 32) if turned >> 31 else turned
            url += f"&channel_id={signed if signed == -(1 << 31) else abs(signed)}"
        urls.append(url)
    return names, urls


class PlainSplit:
    """Makes the events of one split as (kind, fields)."""

    def __init__(self, index, split_count, total, rate, seed, pool, channels):
        share = total // split_count
        self.count = share if index < split_count - 1 else total - share * (split_count - 1)
        self.first_id = 1 + index * share
        self.delay_us = 1_000_000.0 / rate * split_count
        self.random, self.pool, (self.names, self.urls) = SplittableRandom(seed + index), pool, channels

    def __iter__(self):
        for k in range(self.count):
            event = self.first_id + 1 + k
            kind = event % 50
            make = self.person if kind == 0 else self.auction if kind < 4 else self.bid
            yield make(event, 1 + k)

    def time(self, number):
        return 1_600_000_000_000 + int(number * self.delay_us) // 1000

    def last_auction(self, event):
        epoch, turn = divmod(event, 50)
        return (epoch - 1) * 3 + 2 if turn < 1 else epoch * 3 + 2 if turn >= 4 else epoch * 3 + turn - 1

    def some_person(self, event):
        people = event // 50 + 1
        active = min(people, 1000)
        return people - active + self.random.below(active + 10)

    def extra(self, current, average):
        if current > average:
            return ""
        missing = average - current
        delta = math.floor(0.2 * missing + 0.5)
        length = missing - delta + (self.random.below(2 * delta) if delta else 0)
        start = self.random.below((1 << 20) - length)
        return self.pool[start : start + length]

    def person(self, event, number):
        below, word = self.random.below, self.random.word
        firsts = "Peter,Paul,Luke,John,Saul,Vicky,Kate,Julie,Sarah,Deiter,Walter".split(",")  # noqa: SIM905
        lasts = "Shultz,Abrams,Spencer,White,Bartels,Walton,Smith,Jones,Noris".split(",")  # noqa: SIM905
        name = firsts[below(11)] + " "
        name += lasts[below(9)]
        email = word(7) + "@"
        email += word(5) + ".com"
        card = " ".join(str(below(10000)).zfill(4) for _ in range(4))
        cities = "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne"
        city = cities.split(",")[below(10)]
        state = ["AZ", "CA", "ID", "OR", "WA", "WY"][below(6)]
        extra = self.extra(8 + sum(map(len, (name, email, card, city, state))), 200)
        return "Person", (event // 50 + 1000, name, email, card, city, state, self.time(number), extra)

    def auction(self, event, number):
        random, when = self.random, self.time(number)
        hot = event // 50 // 100 * 100
        seller = 1000 + (hot if random.below(4) > 0 else self.some_person(event))
        category, initial = 10 + random.below(5), random.price()
        ahead = self.time(number + 100 * 50 // 3) - when
        expires = when + 1 + random.below(max(2 * ahead, 1))
        name, description = random.word(20), random.word(100)
        reserve = initial + random.price()
        extra = self.extra(48 + len(name) + len(description), 500)
        key = self.last_auction(event) + 1000
        return "Auction", (key, name, description, initial, reserve, when, expires, seller, category, extra)

    def bid(self, event, number):
        random, high = self.random, self.last_auction(event)
        if random.below(2) > 0:
            auction = high // 100 * 100
        else:
            low = max(high - 100, 0)
            auction = low + random.below(high - low + 1 + 10)
        hot = event // 50 // 100 * 100 + 1
        bidder = 2000 + (hot if random.below(4) > 0 else self.some_person(event))
        price = random.price()
        channel = random.below(4) if random.below(2) > 0 else 4 + random.below(10_000)
        fields = (auction + 1000, bidder, price, self.names[channel], self.urls[channel], self.time(number))
        return "Bid", (*fields, self.extra(32, 100))
