local failure_report = require "steelyard.core.failure_report"
local json = require "steelyard.core.json"
local outlier_detection = require "steelyard.core.outlier_detection"

local ORDER = { 1, 100 }
local SERVERS = { "a", "b", "c", "d", "e" }


--- Load balancers in front of the same five servers: they judge once a second, one after the other, and exchange
-- reports.
-- @param consecutive failures in a row that eject; 0, none, if left out
local function balancers(n, shares, consecutive)
    local self = { now = 1000, memories = {}, reports = {}, orders = {} }
    local settings = {
        error_rate = 0.5, requests = 5, consecutive = consecutive or 0, base_s = 5, max_s = 300, share = 0.34,
    }
    for i = 1, n do
        self.memories[i], self.orders[i] = {}, ORDER
    end

    local function reports_for(i)
        local rows = {}
        if not shares then
            return rows
        end
        for k = 1, n do
            if k ~= i and self.reports[k] then
                local is_read = failure_report.decode(self.reports[k], "lb-" .. k, { web = self.orders[i] },
                                                      function(_, address, row)
                    rows[address] = rows[address] or {}
                    table.insert(rows[address], row)
                end)
                -- luassert takes 10 us for a call, and there are 160,000 reports.
                if not is_read then
                    error("the report of lb-" .. k .. " cannot be read")
                end
            end
        end
        return rows
    end

    --- A second.
    -- @param tries balancer -> server -> { completed, failed }; by default ten completed
    -- @return the decisions, by balancer
    function self.turn(tries)
        self.now = self.now + 1
        local decided = {}
        for i = 1, n do
            local figures, pool, reports = {}, { peers = #SERVERS, completed = 0, failed = 0 }, reports_for(i)
            for _, id in ipairs(SERVERS) do
                local of = tries[i] and tries[i][id] or { 10, 0 }
                pool.completed, pool.failed = pool.completed + of[1], pool.failed + of[2]
                if of[2] > 0 or self.memories[i][id] then
                    figures[#figures + 1] = {
                        id = id, address = id .. ":80", completed = of[1], failed = of[2],
                        others = reports[id .. ":80"],
                    }
                end
            end
            local memory, decisions = outlier_detection.judge(self.memories[i], figures, pool, settings, self.now)
            self.memories[i] = json.decode(json.encode(memory))
            local text = failure_report.encode("lb-" .. i, { web = { order = ORDER, rows = memory } })
            self.reports[i] = text
            for _, decision in ipairs(decisions) do
                decided[#decided + 1] = i .. " " .. decision.action .. " " .. decision.id
                self.reason = decision.reason or self.reason
            end
        end
        return table.concat(decided, ", ")
    end

    --- N seconds of the same; all decisions.
    function self.turns(times, tries)
        local decided = {}
        for _ = 1, times do
            local now = self.turn(tries)
            decided[#decided + 1] = now ~= "" and now or nil
        end
        return table.concat(decided, ", ")
    end

    return self
end


--- The same tries at b, for each of n balancers.
local function at_b(n, completed, failed)
    local tries = {}
    for i = 1, n do
        tries[i] = { b = { completed, failed } }
    end
    return tries
end


describe("failures at several load balancers", function()
    it("take a server out at all of them if each sees too few", function()
        local alone, together = balancers(3, false), balancers(3, true)
        local decided = {}
        for i, each in ipairs({ alone, together }) do
            decided[i] = each.turn(at_b(3, 0, 2)) .. ";" .. each.turns(4, at_b(3, 0, 0))
        end
        assert.equal(";", decided[1])
        assert.equal("3 eject b;1 eject b, 2 eject b", decided[2])
        assert.equal("6 of 6 tries failed, and 0 of 200 at the others, of 3 load balancers", together.reason)
    end)

    it("are enough in a quarter of an hour of one try in ten seconds at each of ten, and are not alone", function()
        local function lost_in(shares, consecutive)
            local group, seed, lost = balancers(10, shares, consecutive), 7, 0
            local function draw()
                seed = (seed * 16807) % 2147483647
                return seed / 2147483647
            end
            for _ = 1, 900 do
                local tries = {}
                for i = 1, 10 do
                    tries[i] = {}
                    for _, id in ipairs(SERVERS) do
                        local out = group.memories[i][id] and group.memories[i][id].until_s
                        local comes = draw() < 0.1 and not out and 1 or 0
                        tries[i][id] = id == "b" and { 0, comes } or { comes, 0 }
                        lost = lost + tries[i][id][2]
                    end
                end
                group.turn(tries)
            end
            return lost
        end
        local alone, together = lost_in(false), lost_in(true)
        assert.is_true(alone > 850) -- among some 900: each loses all of its requests
        assert.is_true(together < alone / 4)
        assert.is_true(lost_in(false, 5) < alone / 2) -- by failures in a row
        assert.is_true(lost_in(true, 5) < alone / 4)
    end)

    it("of one alone take it from nobody at whom it does well: it may have lost its own way to the server", function()
        local group = balancers(4, true)
        -- The second one has good tries there, the third two failures among five, the fourth one.
        local tries = { { b = { 0, 100 } }, { b = { 10, 0 } }, { b = { 3, 2 } }, { b = { 0, 1 } } }
        assert.equal("1 eject b", group.turn(tries))
        tries[4].b = { 0, 0 }
        assert.equal("1 return b, 1 eject b", group.turns(12, tries))
    end)

    it("take a returned server out at once if it fails again, while others have it out", function()
        local group = balancers(3, true)
        group.turns(2, at_b(3, 0, 2))
        assert.equal("3 return b, 1 return b, 2 return b", group.turns(5, at_b(3, 0, 0)))
        assert.equal("", group.turn({ { b = { 0, 1 } }, { b = { 0, 0 } }, { b = { 0, 0 } } }))
        assert.equal("2 eject b, 3 eject b", group.turn({ { b = { 0, 0 } }, { b = { 0, 1 } }, { b = { 0, 1 } } }))
        assert.equal("1 eject b", group.turn({ { b = { 0, 1 } }, { b = { 0, 0 } }, { b = { 0, 0 } } }))
    end)

    it("are no reason against a server that does well when it is back", function()
        local group = balancers(3, true)
        group.turns(2, at_b(3, 0, 2))
        local decided = group.turns(30, at_b(3, 1, 0))
        assert.equal("3 return b, 1 return b, 2 return b", decided)
        assert.same({ {}, {}, {} }, group.memories) -- and all is forgotten
        assert.same({}, group.reports)
    end)

    it("are never more than the bound of ejection allows, even if reports lie", function()
        local group = balancers(3, true)
        local all, few, most = {}, {}, 0
        for i, id in ipairs(SERVERS) do
            -- Two report that all fail; the third has a failure at each, and many good tries at one.
            all[id], few[id] = { 0, 3 }, { i == 5 and 30 or 0, 1 }
        end
        for _ = 1, 30 do
            group.turn({ all, all, few })
            local out = 0
            for _, row in pairs(group.memories[3]) do
                out = out + (row.until_s and 1 or 0)
            end
            most = math.max(most, out)
        end
        assert.equal(1, most) -- a third of five
    end)
end)


describe("a report of failures", function()
    local rows = { b = { address = "b:80", times = 1, until_s = 9,
                         window = { completed = 1, failed = 4, others_completed = 9, others_failed = 0, turns = 1 } } }
    local text = failure_report.encode("lb-1", { web = { order = ORDER, rows = rows } })

    local function read(value, lb, order)
        local taken = {}
        local ok = failure_report.decode(value, lb or "lb-1", { web = order or ORDER }, function(name, address, row)
            taken[#taken + 1] = { name, address, row }
        end)
        return taken, ok
    end

    it("says how tries ended there, and elsewhere meanwhile", function()
        assert.same({ { "web", "b:80", { completed = 1, failed = 4, others_completed = 9, others_failed = 0 } } },
                    (read(text)))
    end)

    it("is no news if the tables in use are far apart: an old report was put back", function()
        for _, order in ipairs({ { 1, 130 }, { 1, 70 } }) do
            assert.equal(1, #read(text, nil, order))
        end
        for _, order in ipairs({ { 1, 131 }, { 1, 69 }, { 2, 100 } }) do
            assert.equal(0, #read(text, nil, order))
        end
        assert.is_true(failure_report.decode(text, "lb-1", {}, error)) -- for an upstream that is not served here
    end)

    it("is refused in another's name, and if it is no report", function()
        assert.same({ {}, false }, { read(text, "lb-2") })
        for _, bad in ipairs({
            "", "[]", "1", '{"lb":"lb-1"}', '{"lb":"lb-1","upstreams":{"web":1}}', string.rep(" ", 70000) .. text,
            '{"lb":"lb-1","upstreams":{"web":{"order":[1,100],"rows":{"b:80":[1,2,3]}}}}',
            '{"lb":"lb-1","upstreams":{"web":{"order":[1,100],"rows":{"b:80":[1,-2,3,4]}}}}',
            '{"lb":"lb-1","upstreams":{"web":{"order":[1,100],"rows":{"b:80":[0,0,3,4]}}}}',
            '{"lb":"lb-1","upstreams":{"web":{"order":[1,100],"rows":{"b:80":[1,"x",3,4]}}}}',
            '{"lb":"lb-1","upstreams":{"web":{"order":[1,100],"rows":{"b:80":7}}}}',
        }) do
            assert.same({ {}, false }, { read(bad) })
        end
    end)

    it("has 200 servers at the most, the same ones at every load balancer", function()
        local many = {}
        for i = 1, 500 do
            many["s" .. i] = { address = "s" .. i, times = 0, window = rows.b.window }
        end
        local taken = read((failure_report.encode("lb-1", { web = { order = ORDER, rows = many } })))
        assert.equal(200, #taken)
    end)
end)
