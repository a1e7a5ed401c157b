local json = require "steelyard.core.json"
local outlier_detection = require "steelyard.core.outlier_detection"

local SETTINGS = {
    error_rate = 0.5, requests = 5, consecutive = 5, interval_s = 1, base_s = 5, max_s = 12, share = 0.34,
}

--- Settings by which windows alone, or failures in a row alone, eject.
local BY_WINDOW, BY_RUN = setmetatable({ consecutive = 0 }, { __index = SETTINGS }),
                          setmetatable({ requests = 1000000 }, { __index = SETTINGS })


--- A cluster that judges once a second, and keeps its memory as JSON, like the workers of nginx.
local function cluster(settings)
    local self = { now = 1000, memory = {}, settings = settings or SETTINGS }

    --- One turn.
    -- @param tries id -> { completed, failed }, of every peer
    function self.turn(tries)
        local figures, pool = {}, { peers = 0, completed = 0, failed = 0 }
        local ids = {}
        for id in pairs(tries) do
            ids[#ids + 1] = id
        end
        table.sort(ids)
        for _, id in ipairs(ids) do
            local completed, failed = tries[id][1], tries[id][2]
            pool.peers = pool.peers + 1
            pool.completed, pool.failed = pool.completed + completed, pool.failed + failed
            if failed > 0 or self.memory[id] then
                figures[#figures + 1] = {
                    id = id, address = tries[id].address or id .. ":80", completed = completed, failed = failed,
                }
            end
        end
        self.now = self.now + 1
        local memory, decisions = outlier_detection.judge(self.memory, figures, pool, self.settings, self.now)
        self.memory = json.decode(json.encode(memory))
        local said = {}
        for i, decision in ipairs(decisions) do
            said[i] = decision.action .. " " .. decision.id
                      .. (decision.out_s and " " .. decision.out_s or "")
        end
        return table.concat(said, ", "), decisions
    end

    --- Take turns until a decision; return their number, and the decision.
    function self.turns_until_news(tries)
        for turns = 1, 1000 do
            local said = self.turn(tries)
            if said ~= "" then
                return turns, said
            end
        end
    end

    return self
end

local GOOD, BAD, IDLE = { 10, 0 }, { 0, 10 }, { 0, 0 }


describe("ejection", function()
    it("takes out the peer that fails while the others do not", function()
        local said, decisions = cluster().turn({ a = GOOD, b = BAD, c = GOOD })
        assert.equal("eject b 5", said)
        assert.equal("b:80", decisions[1].address)
        assert.equal("10 of 10 tries failed, and 0 of 20 at the others", decisions[1].reason)
    end)

    it("needs a number of tries and a share of failures", function()
        assert.equal("", cluster().turn({ a = GOOD, b = { 0, 4 }, c = GOOD }))
        assert.equal("eject b 5", cluster().turn({ a = GOOD, b = { 0, 5 }, c = GOOD }))
        assert.equal("", cluster().turn({ a = GOOD, b = { 51, 49 }, c = GOOD }))
        assert.equal("eject b 5", cluster().turn({ a = GOOD, b = { 50, 50 }, c = GOOD }))
    end)

    it("adds up thin windows", function()
        local peers = cluster()
        assert.equal("", peers.turn({ a = GOOD, b = { 0, 4 }, c = GOOD }))
        assert.equal("", peers.turn({ a = GOOD, b = IDLE, c = GOOD }))
        assert.equal("eject b 5", peers.turn({ a = GOOD, b = { 0, 1 }, c = GOOD }))
    end)

    it("does not add up old turns", function()
        local peers = cluster(BY_WINDOW)
        assert.equal("", peers.turn({ a = GOOD, b = { 0, 4 }, c = GOOD }))
        for _ = 1, 9 do
            peers.turn({ a = GOOD, b = IDLE, c = GOOD })
        end
        assert.equal("", peers.turn({ a = GOOD, b = { 0, 1 }, c = GOOD }))
    end)

    it("takes out nobody when the application fails everywhere", function()
        local peers = cluster()
        for _ = 1, 20 do
            assert.equal("", peers.turn({ a = BAD, b = BAD, c = BAD }))
            assert.equal("", peers.turn({ a = { 40, 60 }, b = { 45, 55 }, c = { 35, 65 } }))
            assert.equal("", peers.turn({ a = { 4000, 6000 }, b = { 4500, 5500 }, c = { 3500, 6500 } }))
        end
    end)

    it("takes out one peer in 10,000 windows by bad luck", function()
        -- Each request fails with probability 0.4, at every peer; a fixed sequence.
        local seed = 1
        local function draw()
            seed = (seed * 16807) % 2147483647
            return seed / 2147483647
        end
        local peers, ejected = cluster(), 0
        for _ = 1, 2000 do
            local tries = {}
            for i = 1, 5 do
                local failed = 0
                for _ = 1, 6 do
                    failed = failed + (draw() < 0.4 and 1 or 0)
                end
                tries["p" .. i] = { 6 - failed, failed }
            end
            ejected = ejected + (string.find(peers.turn(tries), "eject") and 1 or 0)
        end
        assert.equal(1, ejected)
    end)

    it("takes out nobody when there is nobody to compare with", function()
        assert.equal("", cluster().turn({ a = BAD }))
        assert.equal("", cluster().turn({ a = BAD, b = IDLE, c = IDLE }))
    end)

    it("takes out at most its share of the peers, and the worst first", function()
        local peers = cluster()
        local busy = { 100, 0 }
        local tries = { a = busy, b = { 20, 80 }, c = { 0, 100 }, d = busy, e = { 10, 90 }, f = busy, g = busy }
        assert.equal("eject c 5, eject e 5", peers.turn(tries)) -- 34 % of 7
        tries.c, tries.e = IDLE, IDLE
        assert.equal("", peers.turn(tries)) -- b has to wait
    end)

    it("never takes out the last peer, with any share", function()
        local peers = cluster({ error_rate = 0.5, requests = 5, consecutive = 5, base_s = 5, max_s = 12, share = 1 })
        assert.equal("eject a 5", peers.turn({ a = BAD, b = GOOD }))
        for _ = 1, 3 do
            assert.equal("", peers.turn({ a = GOOD, b = BAD })) -- a got a few all the same
        end
    end)

    it("may always take out one, however small the share", function()
        local peers = cluster({ error_rate = 0.5, requests = 5, consecutive = 5, base_s = 5, max_s = 12, share = 0 })
        assert.equal("eject a 5", peers.turn({ a = BAD, b = GOOD }))
    end)

    it("ends after its time", function()
        local peers = cluster()
        peers.turn({ a = GOOD, b = BAD, c = GOOD })
        assert.same({ 5, "return b" }, { peers.turns_until_news({ a = GOOD, b = IDLE, c = GOOD }) })
    end)

    it("lasts longer each time, and never longer than max_s", function()
        local peers, times = cluster(), {}
        for i = 1, 4 do
            local _, said = peers.turns_until_news({ a = GOOD, b = BAD, c = GOOD })
            times[i] = said
            peers.turns_until_news({ a = GOOD, b = IDLE, c = GOOD })
        end
        assert.same({ "eject b 5", "eject b 10", "eject b 12", "eject b 12" }, times)
    end)

    it("comes again on less evidence while the peer is on probation", function()
        local peers = cluster()
        peers.turn({ a = GOOD, b = BAD, c = GOOD })
        peers.turns_until_news({ a = GOOD, b = IDLE, c = GOOD })
        assert.equal("", peers.turn({ a = GOOD, b = { 0, 1 }, c = GOOD }))
        assert.equal("eject b 10", peers.turn({ a = GOOD, b = { 0, 1 }, c = GOOD }))
    end)

    it("wants the whole evidence again after a good window", function()
        local peers = cluster()
        peers.turn({ a = GOOD, b = BAD, c = GOOD })
        peers.turns_until_news({ a = GOOD, b = IDLE, c = GOOD })
        assert.equal("", peers.turn({ a = GOOD, b = { 2, 0 }, c = GOOD }))
        assert.equal("", peers.turn({ a = GOOD, b = { 0, 4 }, c = GOOD }))
    end)

    it("is forgiven, one time for each of its lengths that the peer was good", function()
        local peers = cluster()
        peers.turn({ a = GOOD, b = BAD, c = GOOD })
        peers.turns_until_news({ a = GOOD, b = IDLE, c = GOOD })
        peers.turn({ a = GOOD, b = BAD, c = GOOD })
        peers.turns_until_news({ a = GOOD, b = IDLE, c = GOOD })
        assert.equal(2, peers.memory.b.times)
        for _ = 1, 10 do
            peers.turn({ a = GOOD, b = GOOD, c = GOOD })
        end
        assert.equal(1, peers.memory.b.times)
        for _ = 1, 10 do
            peers.turn({ a = GOOD, b = GOOD, c = GOOD })
        end
        assert.same({}, peers.memory)
    end)

    it("remembers nothing of a peer that has left", function()
        local peers = cluster()
        peers.turn({ a = GOOD, b = BAD, c = GOOD })
        assert.equal("", peers.turn({ a = GOOD, c = GOOD }))
        assert.same({}, peers.memory)
    end)

    it("begins again for a peer at another address", function()
        local peers = cluster()
        peers.turn({ a = GOOD, b = BAD, c = GOOD })
        assert.equal("eject b 5", peers.turn({ a = GOOD, b = { 0, 10, address = "b:81" }, c = GOOD }))
    end)

    it("remembers nothing while all is well", function()
        local peers = cluster()
        for _ = 1, 20 do
            peers.turn({ a = GOOD, b = { 99, 1 }, c = GOOD })
        end
        assert.same({}, peers.memory)
    end)

    it("ends when the clock was set back", function()
        local peers = cluster()
        peers.turn({ a = GOOD, b = BAD, c = GOOD })
        peers.now = peers.now - 3600
        assert.equal("return b", peers.turn({ a = GOOD, b = IDLE, c = GOOD }))
    end)
end)


describe("ejection by failures in a row", function()
    local LATE, GOOD_LATE = { 0, 1 }, { 1, 0 }

    --- Turns in which each peer in turn gets one try: the nth turn's, of three peers.
    local function in_turn(turn, of_b)
        local tries = { a = IDLE, b = IDLE, c = IDLE }
        local id = ({ "a", "b", "c" })[(turn - 1) % 3 + 1]
        tries[id] = id == "b" and of_b or GOOD_LATE
        return tries
    end

    it("takes out a peer with a try each three turns, after six of them", function()
        local peers = cluster()
        for turn = 1, 16 do
            assert.equal("", (peers.turn(in_turn(turn, LATE))))
        end
        local said, decisions = peers.turn(in_turn(17, LATE))
        assert.equal("eject b 5", said)
        assert.equal("6 tries in a row failed, and 0 of 10 at the others", decisions[1].reason)
    end)

    it("takes out a peer after five tries if the others have many good ones", function()
        local peers = cluster(BY_RUN)
        for _ = 1, 4 do
            assert.equal("", (peers.turn({ a = GOOD, b = LATE, c = GOOD })))
        end
        assert.equal("eject b 5", (peers.turn({ a = GOOD, b = LATE, c = GOOD })))
    end)

    it("takes out none with `consecutive = 0`", function()
        local peers = cluster(BY_WINDOW)
        for turn = 1, 300 do
            assert.equal("", peers.turn(in_turn(turn, LATE)))
        end
    end)

    it("needs as many as `consecutive` says", function()
        local peers = cluster(setmetatable({ consecutive = 9 }, { __index = BY_RUN }))
        for turn = 1, 25 do
            assert.equal("", (peers.turn(in_turn(turn, LATE))))
        end
        assert.equal("eject b 5", (peers.turn(in_turn(26, LATE))))
    end)

    it("begins again after a completed try", function()
        local peers = cluster(BY_RUN)
        for turn = 1, 300 do
            assert.equal("", peers.turn(in_turn(turn, turn % 12 == 2 and GOOD_LATE or LATE)))
        end
    end)

    it("takes out no peer while all fail, nor after that for tries of that time", function()
        local peers = cluster(BY_RUN)
        for _ = 1, 60 do
            assert.equal("", peers.turn({ a = LATE, b = LATE, c = LATE }))
        end
        -- The others get many good tries, and b none: then one that fails, and one that does not.
        for _ = 1, 20 do
            assert.equal("", peers.turn({ a = GOOD, b = IDLE, c = GOOD }))
        end
        assert.equal("", peers.turn({ a = GOOD, b = LATE, c = GOOD }))
        assert.equal("", peers.turn({ a = GOOD, b = GOOD_LATE, c = GOOD }))
    end)

    it("takes out none if the others have no tries", function()
        local peers = cluster(BY_RUN)
        for _ = 1, 100 do
            assert.equal("", peers.turn({ a = IDLE, b = LATE, c = IDLE }))
        end
    end)

    it("takes out none in 30,000 tries of an application that fails one in five", function()
        local seed = 1
        local function draw()
            seed = (seed * 16807) % 2147483647
            return seed / 2147483647
        end
        local peers, ejected = cluster(BY_RUN), 0
        for turn = 1, 30000 do
            local id = ({ "a", "b", "c" })[turn % 3 + 1]
            local tries = { a = IDLE, b = IDLE, c = IDLE }
            tries[id] = draw() < 0.2 and LATE or GOOD_LATE
            ejected = ejected + (string.find(peers.turn(tries), "eject") and 1 or 0)
        end
        assert.equal(0, ejected)
    end)

    it("comes again after two tries while the peer is on probation", function()
        local peers = cluster(BY_RUN)
        local turns = {}
        for turn = 1, 60 do
            local out = peers.memory.b and peers.memory.b.until_s
            local said = peers.turn(in_turn(turn, out and IDLE or LATE))
            if said ~= "" then
                turns[#turns + 1] = turn .. " " .. said
            end
        end
        assert.same({ "17 eject b 5", "22 return b", "26 eject b 10", "36 return b", "41 eject b 12", "53 return b",
                      "59 eject b 12" }, turns)
    end)

    it("forgets a run after ten minutes", function()
        local peers = cluster(BY_RUN)
        for turn = 1, 3000 do
            assert.equal("", peers.turn({ a = GOOD_LATE, b = turn % 150 == 1 and LATE or IDLE, c = GOOD_LATE }))
        end
    end)
end)
