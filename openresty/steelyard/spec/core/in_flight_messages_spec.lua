local in_flight_messages = require "steelyard.core.in_flight_messages"
local others_in_flight = require "steelyard.core.others_in_flight"
local peer_stats = require "steelyard.core.peer_stats"

local T = 1e9


--- A Memcached with `ma` and `mn`; `values` are its items, `epoch_over` ends the epoch.
local function memcached()
    local values = {}
    local function answer(line)
        if line == "mn" then
            return "MN"
        end
        local key, rest = string.match(line, "^ma (%S+)(.*)$")
        local initial, delta = string.match(rest, " J(%d+)"), tonumber(string.match(rest, " D(%d+)"))
        if type(values[key]) == "string" then
            return "CLIENT_ERROR cannot increment or decrement non-numeric value"
        elseif values[key] then
            values[key] = values[key] + (string.find(rest, " MD") and -delta or delta)
        elseif initial then
            values[key] = tonumber(initial)
        else
            return "NF"
        end
        return string.format("VA 10 \r\n%d", values[key])
    end
    return {
        values = values,
        epoch_over = function() values["steelyard:1:in_flight:epoch"] = nil end,
        ask = function(text)
            local answers = {}
            for line in string.gmatch(text, "([^\r]*)\r\n") do
                answers[#answers + 1] = answer(line) .. "\r\n"
            end
            local whole = table.concat(answers)
            assert.equal(in_flight_messages.END, string.sub(whole, -4))
            return string.sub(whole, 1, -5)
        end,
    }
end


--- The exchange of an nginx with two servers, in cells 1 and 2, and its figures.
local function nginx(store, addresses)
    local stats = peer_stats.new(peer_stats.local_memory(8), 1, 8, 0)
    local others = others_in_flight.new(nil, 8)
    local exchange = in_flight_messages.new(others, stats, math.random)
    local made = { stats = stats, others = others, exchange = exchange }
    function made.take(list)
        local targets = {}
        for cell, address in ipairs(list) do
            targets[cell] = { cell = cell, address = address }
        end
        exchange:take(targets)
    end
    --- Exchange until the epoch is known; return the requests of the others at the two.
    function made.round()
        for _ = 1, 3 do
            local verdict, err = exchange:answer(store.ask(exchange:request(false)))
            if verdict ~= "epoch" then
                return { stats:others(1), stats:others(2) }, verdict or err
            end
        end
    end
    function made.raise(cell, n)
        for _ = 1, n do
            stats:raise(cell)
        end
    end
    made.take(addresses or { "10.0.0.1:80", "[::1]:80" })
    return made
end


describe("the exchange of requests in flight", function()
    local store, a, b, c
    before_each(function()
        store = memcached()
        a, b, c = nginx(store), nginx(store), nginx(store)
    end)

    it("reports to each the requests of the others, and not its own", function()
        a.raise(1, 3)
        b.raise(1, 2)
        c.raise(2, 5)
        for _, each in ipairs({ a, b, c, a, b, c }) do
            each.round()
        end
        assert.same({ 2, 5 }, { a.stats:others(1), a.stats:others(2) })
        assert.same({ 3, 5 }, { b.stats:others(1), b.stats:others(2) })
        assert.same({ 5, 0 }, { c.stats:others(1), c.stats:others(2) })
        assert.equal(3, c.exchange:count())
        a.stats:lower(1)
        a.stats:lower(1)
        a.round()
        assert.same({ 3, 0 }, (c.round()))
    end)

    it("sends changed counts to their counters, and asks all", function()
        a.raise(1, 3)
        a.round()
        a.stats:lower(1)
        local text = a.exchange:request(false)
        local epoch = string.match(text, "in_flight:(%d+) D0")
        assert.equal(
            "ma steelyard:1:in_flight:" .. epoch .. " D0 v\r\n"
            .. "ma steelyard:1:in_flight:" .. epoch .. ":10.0.0.1:80 N30 J4294967295 D1 MD v\r\n"
            .. "ma steelyard:1:in_flight:" .. epoch .. ":10.0.0.1:80 D0 v\r\n"
            .. "ma steelyard:1:in_flight:" .. epoch .. ":[::1]:80 D0 v\r\nmn\r\n",
            (string.gsub(text, "^ma steelyard:1:in_flight:epoch N10 J%d+ D0 v\r\n", "")))
    end)

    it("surveys its requests, the changes to send, and the latency where they are", function()
        assert.same({ 0, false, 0, 0 }, { a.exchange:survey(T + 5) })
        a.raise(1, 3)
        a.raise(2, 1)
        a.stats:observe(1, 10, true, T)
        a.stats:observe(2, 50, true, T)
        assert.same({ 4, true, 20, T }, { a.exchange:survey(T + 5) })
        a.round()
        assert.same({ 4, false, 20, T }, { a.exchange:survey(T + 5) })
        assert.equal(0, (select(4, a.exchange:survey(T - 3600)))) -- the clock was set back
    end)

    it("is rid of a load balancer that died after one epoch", function()
        a.raise(1, 3)
        b.raise(1, 4)
        a.round()
        b.round()
        assert.same({ 4, 0 }, (a.round()))
        store.epoch_over() -- and b is dead
        assert.same({ 0, 0 }, (a.round()))
        assert.equal(2, a.exchange:count()) -- it may come yet
        store.epoch_over()
        a.round()
        assert.equal(1, a.exchange:count())
    end)

    it("is right again after one epoch when an answer is lost, or a request", function()
        a.raise(1, 3)
        a.round()
        a.raise(1, 1)
        store.ask(a.exchange:request(false)) -- done, and the answer is lost
        assert.same({ 4, 0 }, { select(2, pcall(function() b.round() return b.stats:others(1) end)), 0 })
        a.raise(1, 1)
        a.exchange:request(false) -- never arrives
        b.round()
        assert.equal(4, b.stats:others(1))
        a.round()
        b.round()
        assert.equal(4, b.stats:others(1)) -- and it is not sent twice
        store.epoch_over()
        a.round()
        b.round()
        assert.equal(5, b.stats:others(1))
    end)

    it("is right again after one epoch when a request comes twice, and never below zero", function()
        a.raise(1, 3)
        a.round()
        for _ = 1, 3 do
            a.stats:lower(1)
        end
        local text = a.exchange:request(false)
        store.ask(text)
        store.ask(text)
        b.round()
        assert.equal(0, b.stats:others(1)) -- the counter says -3
        b.raise(1, 2)
        b.round()
        assert.equal(0, a.stats:others(1))
        store.epoch_over()
        b.round()
        a.round()
        assert.equal(2, a.stats:others(1))
    end)

    it("begins again after a restart of the store, which has lost everything", function()
        a.raise(1, 3)
        b.raise(2, 2)
        a.round()
        b.round()
        for key in pairs(store.values) do
            store.values[key] = nil
        end
        a.round()
        b.round()
        assert.same({ 0, 2 }, (a.round()))
        assert.equal(2, a.exchange:count())
    end)

    it("drops a late answer from the previous epoch", function()
        a.raise(1, 3)
        a.round()
        b.round()
        store.epoch_over()
        b.round()
        a.raise(1, 1)
        local late = a.exchange:request(false)
        assert.equal("epoch", a.exchange:answer(store.ask(late)))
        b.round()
        assert.equal(0, b.stats:others(1))
        a.round()
        b.round()
        assert.equal(4, b.stats:others(1))
    end)

    it("takes back its counts when it leaves, or when it is alone", function()
        a.raise(1, 3)
        a.round()
        store.ask(a.exchange:request(true))
        b.round()
        assert.equal(0, b.stats:others(1))
    end)

    it("takes back the count of a departed server, and sends that of a new one", function()
        a.raise(1, 3)
        a.round()
        a.take({ "10.0.0.9:80", "[::1]:80" }) -- the same cell, which the new server has with all that is in it
        a.round()
        b.round()
        assert.equal(0, b.stats:others(1))
        b.take({ "10.0.0.9:80", "[::1]:80" })
        b.round()
        assert.equal(3, b.stats:others(1))
    end)

    it("knows nothing of a server that is not asked for any more", function()
        a.raise(1, 3)
        a.raise(2, 4)
        a.round()
        b.raise(1, 1)
        b.round()
        assert.same({ 3, 4 }, (b.round()))
        b.exchange:take({ { cell = 2, address = "[::1]:80" } })
        assert.equal(0, b.stats:others(1))
        b.round() -- its answer for the first server is the sum of the others, which would never be corrected
        assert.same({ 0, 4 }, { b.stats:others(1), b.stats:others(2) })
        a.round()
        assert.equal(0, a.stats:others(1))
    end)

    it("is gone on with by another worker of the nginx, which shares its memory", function()
        a.raise(1, 3)
        a.round()
        local successor = in_flight_messages.new(a.others, a.stats, math.random)
        successor:take({ { cell = 1, address = "10.0.0.1:80" }, { cell = 2, address = "[::1]:80" } })
        a.exchange = successor
        for _ = 1, 3 do
            successor:answer(store.ask(successor:request(false)))
        end
        b.round()
        assert.equal(3, b.stats:others(1))
        assert.equal(2, b.exchange:count())
    end)

    it("knows nothing while an answer is refused, and says which", function()
        a.raise(1, 3)
        a.round()
        for key in pairs(store.values) do
            if string.find(key, "10.0.0.1", 1, true) then
                store.values[key] = "no number"
            end
        end
        local _, why = a.round()
        assert.equal("CLIENT_ERROR cannot increment or decrement non-numeric value", why)
        assert.same({ nil, "ERROR" }, { a.exchange:answer("ERROR\r\nERROR\r\n") })
        assert.same({ nil, "there is no epoch" }, { a.exchange:answer("NF\r\nNF\r\n") })
    end)

    it("takes any text for an answer, and raises nothing", function()
        a.round()
        a.exchange:request(false)
        for _, text in ipairs({ "", "\r\n", "VA", "VA 10\r\n", "VA 10\r\nx\r\n", "VA 1\r\n1", "\0\0\r\n\r\n" }) do
            assert.is_nil((a.exchange:answer(text)))
        end
    end)

    it("asks many servers in turns", function()
        local addresses = {}
        for i = 1, 1000 do
            addresses[i] = "10.0." .. math.floor(i / 250) .. "." .. i % 250 .. ":80"
        end
        local many = in_flight_messages.new(others_in_flight.new(nil, 1001),
                                            peer_stats.new(peer_stats.local_memory(1001), 1, 1001, 0), math.random)
        local targets = {}
        for i, address in ipairs(addresses) do
            targets[i] = { cell = i, address = address }
        end
        many:take(targets)
        assert.equal(3, many:turns())
        many:answer(store.ask(many:request(false)))
        local asked = {}
        for _ = 1, many:turns() do
            local text = many:request(false)
            for address in string.gmatch(text, "%d+:(%d+%.%d+%.%d+%.%d+:80) ") do
                asked[address] = true
            end
            assert.is_true(#store.ask(text) <= many:most_bytes())
        end
        local n = 0
        for _ in pairs(asked) do
            n = n + 1
        end
        assert.equal(1000, n)
    end)
end)
