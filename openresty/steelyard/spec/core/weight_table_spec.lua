local counted_breaths = require "openresty.steelyard.spec.support.counted_breaths"
local weight_table = require "steelyard.core.weight_table"
local wire = require "steelyard.core.wire"

local GOOD = '{"v":1,"upstream":"web","term":3,"generation":118,"issued_at_ms":1790000000000,'
    .. '"reporters":[],"law":"steelyard",'
    .. '"picker":"vnswrr","peers":[{"id":"b","address":"10.0.0.12:80","weight":2,"baseline":1,"state":"up"},'
    .. '{"id":"a","address":"[fd00::13]:8080","weight":1,"baseline":1,"state":"drain"}]}'


local function reason_of(text)
    local taken, refused = weight_table.decode(text)
    assert.is_nil(taken)
    assert.is_string(refused.detail)
    return refused.reason
end


describe("a decoded weight table", function()
    it("has its peers in id order, with ip and port as nginx takes them", function()
        local peers = weight_table.decode(GOOD).peers
        assert.same({ "a", "[fd00::13]", 8080 }, { peers[1].id, peers[1].ip, peers[1].port })
        assert.same({ "b", "10.0.0.12", 80 }, { peers[2].id, peers[2].ip, peers[2].port })
    end)

    it("has addresses as nginx writes them, and keeps the peers of the table before all the same", function()
        local other = GOOD:gsub("fd00::13", "FD00:0::13")
        local before = weight_table.decode(other)
        assert.equal("[fd00::13]:8080", before.peers[1].address)
        local text = other:gsub('"weight":2', '"weight":3')
        assert.equal(before.peers[1], weight_table.decode(text, { previous = before }).peers[1])
    end)

    it("may be written over several lines", function()
        assert.truthy(weight_table.decode((GOOD:gsub(",", ",\r\n\t"))))
    end)

    it("keeps milliseconds exactly", function()
        assert.equal(1790000000000, weight_table.decode(GOOD).issued_at_ms)
    end)
end)


describe("the decoder refuses", function()
    local function with(from, to)
        local text, n = GOOD:gsub(from, to, 1)
        assert.equal(1, n)
        return text
    end

    local cases = {
        { "more than eight megabytes of zeros", "too_large", ("0"):rep(8 * 1024 * 1024 + 1) },
        { "a megabyte of open brackets", "not_json", ("["):rep(1024 * 1024) },
        { "a hexadecimal number", "not_json", with("118", "0x76") },
        { "a raw control character", "not_json", with("steelyard", "steel\2yard") },
        { "a raw line end in a string", "not_json", with("steelyard", "steel\nyard") },
        { "a raw tab after an escaped quote", "not_json", with("steelyard", '\\\\"\t') },
        { "a NUL after the end", "not_json", GOOD .. "\0" },
        { "an infinite generation", "type", with("118", "1e999") },
        { "a generation beyond a double's integers", "range", with("118", "9007199254740994") },
        { "a null weight", "type", with('"weight":2', '"weight":null') },
        { "a null id", "name", with('"id":"b"', '"id":null') },
        { "a null list of peers", "type", with('"peers":.*', '"peers":null}') },
        { "an empty object for peers", "type", with('"peers":.*', '"peers":{}}') },
        { "an array for a peer", "type", with('"peers":.*', '"peers":[["a"]]}') },
        { "an empty array at the top", "not_object", "[]" },
        { "an empty object", "missing", "{}" },
        { "an address that is too long", "range", with("10.0.0.12:80", ("1"):rep(200)) },
        { "an octal-looking address", "range", with("10.0.0.12:80", "010.0.0.12:80") },
    }
    it("a name with a line end, in one line", function()
        local _, refused = weight_table.decode(with("steelyard", "steel\\nyard"))
        assert.equal("name", refused.reason)
        assert.truthy(refused.detail:find([["steel\nyard"]], 1, true), refused.detail)
    end)

    for _, case in ipairs(cases) do
        it(case[1] .. " (" .. case[2] .. ")", function()
            assert.equal(case[2], reason_of(case[3]))
        end)
    end
end)


describe("the decoder is total", function()
    local REASONS = { too_large = true, not_json = true, not_object = true, version = true,
                      missing = true, type = true, range = true, name = true }

    local function survives(text)
        local taken, refused = weight_table.decode(text)
        assert.is_true(taken ~= nil or REASONS[refused.reason] == true, text)
    end

    it("on every prefix of a good table", function()
        for n = 0, #GOOD - 1 do
            survives(GOOD:sub(1, n))
        end
    end)

    it("on 5,000 tables with bytes changed at random", function()
        math.randomseed(7)
        for _ = 1, 5000 do
            local text = GOOD
            for _ = 1, math.random(1, 4) do
                local at = math.random(#text)
                text = text:sub(1, at - 1) .. string.char(math.random(0, 255)) .. text:sub(at + math.random(0, 2))
            end
            survives(text)
        end
    end)

    it("on 5,000 tables with a value replaced by another kind of value", function()
        local values = { "null", "true", "-1", "0", "1.5", "1e308", "1e999", "[]", "{}", "[[]]", '""', '"a b"',
                         '"' .. ("x"):rep(70) .. '"', "[null]", '{"a":1}', "123456789012345678901234567890" }
        math.randomseed(8)
        local spans = {}
        for from, to in GOOD:gmatch('"():()') do
            spans[#spans + 1] = { from, to }
        end
        for _ = 1, 5000 do
            local _, at = unpack(spans[math.random(#spans)])
            local rest = GOOD:sub(at)
            local replaced = rest:gsub('^("?)[^,%]}]*', values[math.random(#values)], 1)
            survives(GOOD:sub(1, at - 1) .. replaced)
        end
    end)

    it("and still raises for a bug of its own", function()
        assert.has_error(function()
            wire.total(function() return nil + 1 end, "")
        end)
    end)
end)


describe("the order of tables", function()
    local function compare(a, b)
        return weight_table.compare({ term = a[1], generation = a[2] }, { term = b[1], generation = b[2] })
    end

    it("is by term and then by generation", function()
        assert.equal(-1, compare({ 3, 118 }, { 3, 119 }))
        assert.equal(1, compare({ 4, 1 }, { 3, 119 }))
        assert.equal(-1, compare({ 2, 500 }, { 3, 1 }))
        assert.equal(0, compare({ 3, 118 }, { 3, 118 }))
    end)
end)


describe("a table with a check", function()
    local CHECK = '"check":{"path":"/healthz","statuses":[204,200],"interval_s":2.5,"timeout_s":1.0,"rise":2,"fall":3,'
        .. '"host":null},'

    local function with(members)
        return (GOOD:gsub('"peers"', function() return members .. '"peers"' end))
    end

    local function decoded(members)
        return assert(weight_table.decode(with(members)))
    end

    it("has it as nginx.conf's options would give it", function()
        local options = require("steelyard.core.options")
        local given = { path = "/healthz", statuses = { 200, 204 }, interval_s = 2.5 }
        local checked = options.check({ memcached = { "h:1" }, lb = "a", upstreams = { web = { check = given } } })
        assert.same(checked.upstreams.web.check, decoded(CHECK).check)
    end)

    it("and one with a hash key have nginx's variable for it", function()
        assert.equal("http_x_user", decoded('"hash_key":"header:X-User",').hash_variable)
        assert.is_nil(decoded("").hash_variable)
    end)

    it("is decoded in slices like any other", function()
        assert.is_table(decoded(CHECK .. '"hash_key":"uri",').peers_place)
    end)

    it("is refused for its own errors, although the previous table was right", function()
        local previous = decoded(CHECK)
        local _, refused = weight_table.decode(with(CHECK:gsub('"rise":2', '"rise":0')), { previous = previous })
        assert.equal("range", refused.reason)
    end)

    it("is another one when only the check, the hash key, the limit or the picker is", function()
        local before = decoded(CHECK)
        local function same(text)
            return weight_table.same(before, assert(weight_table.decode(text, { previous = before })))
        end
        assert.is_true(same(with(CHECK):gsub('"generation":118', '"generation":119'), nil))
        assert.is_true(same(with(CHECK:gsub("204,200", "200,204")), nil))
        assert.is_false(same(with(CHECK:gsub('"fall":3', '"fall":4')), nil))
        assert.is_false(same(with(CHECK:gsub("healthz", "health")), nil))
        assert.is_false(same(GOOD))
        assert.is_false(same(with(CHECK .. '"hash_key":"uri",')))
        assert.is_false(same(with(CHECK .. '"max_conns":9,')))
        assert.is_false(same(with(CHECK):gsub('"vnswrr"', '"vnswrr2"'), nil))
    end)

    it("is survived with any members", function()
        local values = { "null", "true", "-1", "0", "1.5", "1e999", "[]", "{}", "[[]]", '""', '"a b"', "[null]",
                         '{"a":1}', "[200,{}]", '"/\\u0000"', "123456789012345678901234567890" }
        for _, member in ipairs({ "path", "statuses", "interval_s", "timeout_s", "rise", "fall", "host" }) do
            for _, value in ipairs(values) do
                local members, n = CHECK:gsub('"' .. member .. '":[^,}%]]*%]?,?[^"}]*', function()
                    return '"' .. member .. '":' .. value .. (member == "host" and "" or ",")
                end)
                assert.equal(1, n)
                local taken, refused = weight_table.decode(with(members))
                assert.is_true(taken ~= nil or refused.reason ~= "not_json", members)
            end
        end
    end)
end)


describe("a table that is decoded in slices", function()
    local HEAD = '{"v":1,"upstream":"web","term":3,"generation":118,"issued_at_ms":1790000000000,'
        .. '"reporters":[],"law":"steelyard",'
        .. '"picker":"vnswrr","peers":['

    local function row(i, weight)
        return string.format('{"id":"p%05d","address":"10.0.%d.%d:80","weight":%d,"baseline":7,"state":"up"}',
                             i, math.floor(i / 250), i % 250, weight or i)
    end

    local function rows(n, change)
        local list = {}
        for i = 1, n do
            list[i] = change and change(i) or row(i)
        end
        return list
    end

    local function written(list)
        return HEAD .. table.concat(list, ",") .. "]}"
    end

    -- It is not in the form for cutting, so it is decoded at once.
    local function at_once(text)
        return weight_table.decode(text .. " ")
    end

    local function told(refused)
        return refused and { refused.reason, (refused.detail:gsub("at character %d+", "")) }
    end

    local function same(text)
        local taken, refused = weight_table.decode(text)
        local whole, refused_whole = at_once(text)
        assert.same(told(refused_whole), told(refused))
        if whole then
            assert.is_nil(whole.peers_place)
            taken.peers_place = nil
            assert.same(whole, taken)
        end
        return taken
    end

    it("is the same as when it is decoded at once", function()
        for _, n in ipairs({ 0, 1, 2, 89, 90, 91, 1000 }) do
            assert.equal(n, #same(written(rows(n))).peers)
        end
    end)

    it("lets requests in at least every 100 rows", function()
        local breathe, breaths = counted_breaths()
        assert(weight_table.decode(written(rows(5000)), { breathe = breathe }))
        assert.is_true(breaths() >= 2 * 5000 / 100)
    end)

    it("has its peers in id order, with any order of the text", function()
        local shuffled = rows(2000, function(i) return row(i * 1327 % 2003) end)
        local breathe, breaths = counted_breaths()
        local peers = weight_table.decode(written(shuffled), { breathe = breathe }).peers
        for i = 2, #peers do
            assert.is_true(peers[i - 1].id < peers[i].id)
        end
        assert.equal(2000, #peers)
        assert.is_true(breaths() > 100)
    end)

    it("refuses two peers of one id, however far apart", function()
        assert.equal("range", reason_of(written(rows(500, function(i) return row(i == 400 and 3 or i) end))))
    end)

    it("is not misled by text that looks like the end of a row or of the list", function()
        local odd = {
            [[{"id":"p%05d},{","address":"10.0.0.1:80","weight":1,"baseline":1,"state":"up"}]],
            [[{"id":"p%05d","address":"10.0.0.1:80","weight":1,"baseline":1,"state":"up","note":"},{\"]}"}]],
            [[{"id":"p%05d","address":"10.0.0.1:80","weight":1,"baseline":1,"state":"up","zones":[{"a":1},{"b":2}]}]],
            [[{"id":"p%05d","address":"10.0.0.1:80","weight":1,"baseline":1,"state":"up","peers":[{"a":1},{"b":2}]}]],
            [[{"id":"p%05d"},7,{"id":"p%05d"}]],
            [[{"id":"p%05d"},{"id":"p%05d"]],
            [[{"id":"p%05d"},[{"id":"p%05d"}],{}]],
            [[{"id":"p%05d"}],"more":[{"id":"p%05d"}]],
        }
        for _, pattern in ipairs(odd) do
            for _, every in ipairs({ 1, 100 }) do
                same(written(rows(300, function(i)
                    return i % every == 0 and string.format(pattern, i, i) or row(i)
                end)))
            end
        end
    end)

    it("is not misled by another list of the same name", function()
        local list = table.concat(rows(200), ",")
        for _, text in ipairs({
            '{"v":1,"old":{"peers":[' .. list .. "]},\"peers\":[]}",
            '{"v":1,"peers":[],"old":{"peers":[' .. list .. "]}",
            '{"v":1,"peers":[],"old":{"peers":[' .. list .. "]}}",
            '{"v":1,"peers":[],"peers":[' .. list .. "]}",
            '{"v":1,"p\\u0065ers":[],"old":[{"peers":[' .. list .. "]}",
            '{"v":1,"note":"{\\"peers":[' .. list .. "]}",
            '{"v":1,"note\\"peers":[' .. list .. "]}",
            '{"v":1,"note":"x,"peers":[' .. list .. "]}",
            '["peers":[' .. list .. "]}",
        }) do
            same(text)
        end
    end)

    it("gives the reason of the whole for 1,000 tables with bytes changed at random", function()
        math.randomseed(9)
        local good = written(rows(150))
        for _ = 1, 1000 do
            local text = good
            for _ = 1, math.random(1, 3) do
                local at = math.random(#text)
                local any, telling = math.random(0, 255), ('{}[]",:\\'):byte(math.random(8))
                local byte = string.char(math.random(2) == 1 and any or telling)
                text = text:sub(1, at - 1) .. byte .. text:sub(at + math.random(0, 2))
            end
            same(text)
        end
    end)

    describe("after another one", function()
        local before = weight_table.decode(written(rows(300)))

        local function after(text)
            return weight_table.decode(text, { previous = before })
        end

        it("has the very same list if no peer changed", function()
            local later = after((written(rows(300)):gsub('"generation":118', '"generation":119')))
            assert.equal(119, later.generation)
            assert.equal(before.peers, later.peers)
        end)

        it("has it too if only the writing changed", function()
            assert.equal(before.peers, after((written(rows(300)):gsub(",", ", "))).peers)
            assert.equal(before.peers, after((written(rows(300)):gsub('"state":"up"', '"state":"up","tier":1'))).peers)
        end)

        it("has the same peers beside the one that changed", function()
            local later = after(written(rows(300, function(i) return row(i, i == 150 and 9999 or i) end)))
            assert.are_not.equal(before.peers, later.peers)
            assert.equal(before.peers[149], later.peers[149])
            assert.equal(9999, later.peers[150].weight)
            assert.equal(150, before.peers[150].weight)
            assert.equal(before.peers[151], later.peers[151])
        end)

        it("notices a changed address, state and baseline, and peers that came and went", function()
            for _, change in ipairs({ { '"10.0.0.9:80"', '"[::1]:81"' }, { '("id":"p00009".-)"up"', '%1"drain"' },
                                      { '("id":"p00009".-)"baseline":7', '%1"baseline":8' },
                                      { '{"id":"p00009".-},', "" }, { '"p00009"', '"q00009"' } }) do
                local text, n = written(rows(300)):gsub(change[1], change[2], 1)
                assert.equal(1, n)
                local fresh, later = weight_table.decode(text), after(text)
                assert.are_not.equal(before.peers, later.peers)
                fresh.peers_place, later.peers_place = nil, nil
                assert.same(fresh, later)
            end
        end)

        it("is the same as a first one, with servers added, removed and moved at random", function()
            math.randomseed(11)
            local previous
            for _ = 1, 1000 do
                local list = {}
                for _ = 1, math.random(8) do
                    local id = math.random(12)
                    list[id] = row(id)
                end
                local compact = {}
                for id = 1, 12 do
                    if list[id] then
                        table.insert(compact, math.random(5) == 1 and 1 or #compact + 1, list[id])
                    end
                end
                local text = written(compact)
                local later, refused = weight_table.decode(text, { previous = previous })
                assert(later, refused and refused.detail)
                assert.same(at_once(text).peers, later.peers)
                previous = later
            end
        end)

        it("is the same as a first one, with the text of either changed at random", function()
            math.randomseed(10)
            local tokens = { "},{", '},{"id":"x"', "}, {", "},[", '"', "{", "}", ",", " ", '{"a":[{},{}]}', "\\" }
            local function changed(text)
                for _ = 1, math.random(1, 3) do
                    local at = math.random(#HEAD, #text)
                    text = text:sub(1, at - 1) .. tokens[math.random(#tokens)] .. text:sub(at + math.random(0, 2))
                end
                return text
            end
            local function another(text)
                return math.random(4) == 1 and changed(text)
                       or (text:gsub('"weight":%d+', '"weight":' .. math.random(99), math.random(20)))
            end
            local function is_like(peer, other)
                return peer and peer.id == other.id and peer.address == other.address and peer.weight == other.weight
            end
            local good, previous, taken = written(rows(60)), nil, 0
            for _ = 1, 1000 do
                local text = another(good)
                local later, refused = weight_table.decode(text, { previous = previous })
                local whole, refused_whole = at_once(text)
                if not whole then
                    assert.same(told(refused_whole), told(refused))
                else
                    local alike = later ~= nil and #later.peers == #whole.peers
                    for i = 1, alike and #whole.peers or 0 do
                        alike = alike and is_like(later.peers[i], whole.peers[i])
                    end
                    assert(alike, text)
                    previous, taken = later, taken + 1
                end
            end
            assert.is_true(taken > 500)
        end)

        it("is refused for its own errors, although the previous one was right", function()
            assert.equal("range", select(2, after((written(rows(300)):gsub('"state":"up"', '"state":"UP"', 1)))).reason)
            assert.equal("type", select(2, after((written(rows(300)):gsub('"weight":9', '"weight":true', 1)))).reason)
            assert.equal("missing", select(2, after((written(rows(300)):gsub('"law"', '"low"', 1)))).reason)
        end)

        it("may be empty, and then have peers again", function()
            local empty = after(written({}))
            assert.same({}, empty.peers)
            assert.equal(2, #weight_table.decode(written(rows(2)), { previous = empty }).peers)
        end)
    end)
end)
