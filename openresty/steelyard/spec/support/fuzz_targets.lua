--- luajit <this file>, from the checkout's root: read `TARGET LENGTH\n<bytes>` again and again, and answer each.
--
-- A target is a decoder of the data plane and its promises. Its judge(text) returns "accepted" or the reason of the
-- refusal; for `weight-table` also the table, for the comparison with Python. It raises if a promise is broken. The
-- inputs come from loadtest/resilience/steelyard_resilience/fuzz/luajit.py; an answer is a line of JSON.

package.path = "openresty/steelyard/lib/?.lua;openresty/lua-resty-vnswrr/lib/?.lua;./?.lua;" .. package.path

local no_pause = require("resty.vnswrr").no_pause
local address = require "steelyard.core.address"
local base64 = require "openresty.steelyard.spec.support.base64"
local failure_report = require "steelyard.core.failure_report"
local hash_key = require "steelyard.core.hash_key"
local json = require "steelyard.core.json"
local options = require "steelyard.core.options"
local orca = require "steelyard.core.orca"
local outlier_detection = require "steelyard.core.outlier_detection"
local signature = require "steelyard.io.signature"
local table_chunks = require "steelyard.core.table_chunks"
local table_head = require "steelyard.core.table_head"
local traffic_report = require "steelyard.core.traffic_report"
local upstream_list = require "steelyard.core.upstream_list"
local weight_table = require "steelyard.core.weight_table"
local wire = require "steelyard.core.wire"

local REASONS = {
    too_large = true, not_json = true, not_object = true, version = true, missing = true, type = true, range = true,
    name = true, unsigned = true, signature = true, signed = true,
}


local function require_that(holds, what)
    if not holds then
        error("promise broken: " .. what, 0)
    end
end


local function same(a, b, depth)
    if type(a) ~= "table" or type(b) ~= "table" then
        return a == b or (a ~= a and b ~= b)
    end
    if (depth or 0) > 200 then
        return true -- deep enough
    end
    for key, value in pairs(a) do
        if not same(value, b[key], (depth or 0) + 1) then
            return false
        end
    end
    for key in pairs(b) do
        if a[key] == nil then
            return false
        end
    end
    return true
end


local function refused(value, refusal)
    require_that(value == nil and type(refusal) == "table", "neither a value nor a refusal")
    require_that(REASONS[refusal.reason], "the reason " .. tostring(refusal.reason) .. " is none that is counted")
    require_that(type(refusal.detail) == "string", "no detail")
    return refusal.reason
end


--- Return a table without the fields for decoding the next one.
local function said(taken)
    local peers = {}
    for i, peer in ipairs(taken.peers) do
        peers[i] = { peer.id, peer.address, peer.weight, peer.baseline, peer.state }
    end
    local check = taken.check
    return {
        upstream = taken.upstream, term = taken.term, generation = taken.generation, law = taken.law,
        issued_at_ms = taken.issued_at_ms, picker = taken.picker, hash_key = taken.hash_key,
        max_conns = taken.max_conns, peers = json.array(peers),
        check = check and {
            path = check.path, host = check.host, interval_s = check.interval_s, timeout_s = check.timeout_s,
            rise = check.rise, fall = check.fall, statuses = not check.grpc_service and check.statuses_words or nil,
            tls = check.tls, tls_server_name = check.tls_server_name, tls_verify = check.tls_verify,
            grpc_service = check.grpc_service,
        },
    }
end


local previous

local function judge_table(text)
    local taken, refusal = weight_table.decode(text)
    local after = previous and { weight_table.decode(text, { previous = previous }) }
    if not taken then
        local reason = refused(taken, refusal)
        require_that(not after or after[1] == nil, "after another table it is accepted: " .. reason)
        return reason
    end
    if after then
        require_that(after[1], "after another table it is refused")
        require_that(same(said(after[1]), said(taken)), "after another table it is read differently")
    end
    for i, peer in ipairs(taken.peers) do
        require_that(wire.is_name(peer.id) and peer.weight >= 1 and peer.port >= 1, "a peer is none")
        require_that(i == 1 or taken.peers[i - 1].id < peer.id, "the peers are not in the order of their ids")
    end
    previous = taken
    return "accepted", said(taken)
end


local HEAD_OF = '{"term":1,"generation":1,"issued_at_ms":1,"peers":[{"weight":1},{"weight":2},{"weight":3}]}'

local function judge_head(text)
    local head, refusal = table_head.decode(text, no_pause)
    if not head then
        return refused(head, refusal)
    end
    local of = head.zone_factors and string.gsub(HEAD_OF, '"peers"', '"zone_factors":[[1]],"peers"') or HEAD_OF
    local made = table_head.put_into(of, head, function() end)
    require_that((made ~= nil) == (#head.weights == 3), "it goes into a table of other rows, or not into its own")
    local rows = made and json.decode(made).peers or {}
    for i, row in ipairs(rows) do
        require_that(row.weight == head.weights[i], "a weight is another one in the table")
    end
    return "accepted"
end


--- A manifest and its chunks, a line each.
local function judge_chunks(text)
    local texts = {}
    for line in string.gmatch(text .. "\n", "([^\n]*)\n") do
        texts[#texts + 1] = line
    end
    local manifest, refusal = table_chunks.decode(table.remove(texts, 1), no_pause)
    if not manifest then
        return refused(manifest, refusal)
    end
    local joined, taken
    joined, refusal = table_chunks.join(manifest, texts, no_pause)
    if joined then
        taken, refusal = weight_table.decode(joined)
    end
    if not taken then
        return refused(taken, refusal)
    end
    require_that(not table_chunks.is_manifest(joined), "what is joined is a manifest again")
    local misfit = table_chunks.misfit(taken, manifest)
    return misfit and refused(nil, misfit) or "accepted"
end


local function judge_list(text)
    local listed, refusal = upstream_list.decode(text)
    if not listed then
        return refused(listed, refusal)
    end
    for i, name in ipairs(listed.names) do
        require_that(wire.is_name(name), "an upstream's name is none")
        require_that(i == 1 or listed.names[i - 1] < name, "the names are not in order")
    end
    return "accepted"
end


local function judge_slices(text)
    local whole, why = json.decode(text)
    local sliced, more = json.decode_in_slices(text, "peers", function() end)
    require_that((whole == nil) == (sliced == nil), "only one of both reads it: " .. tostring(why or more))
    if whole == nil then
        return "not_json"
    end
    require_that(same(whole, sliced), "in slices it is read differently")
    return "accepted"
end


local SIGNED, TEXTS = json.decode(assert(io.open("docs/contract/signed.json")):read("*a")), {}
for _, example in ipairs(SIGNED.accepted) do
    TEXTS[example.text] = true
end

local function judge_signed(value)
    local without, keyless = signature.open(nil, value)
    require_that(without == value or refused(without, keyless), "without a key something was stripped")
    local text, refusal = signature.open(SIGNED.key, value)
    if not text then
        return refused(text, refusal)
    end
    require_that(TEXTS[text], "a text was believed that nobody has signed")
    require_that(value == signature.sign(SIGNED.key, text), "a value was believed whose signature is another")
    return "accepted"
end


local function judge_address(text)
    local ip, port = address.split(text)
    address.allows(text, { "10.0.0.0/8", "fd00::/8" })
    address.network(text)
    hash_key.variable(text)
    if not ip then
        require_that(type(port) == "string", "no reason")
        return "refused"
    end
    require_that(port >= 1 and port <= 65535, "a port out of bounds")
    return "accepted", { ip, port }
end


local function judge_options(text)
    local given = json.decode(text)
    if given == nil then
        return "not_json"
    end
    local ok, err = pcall(options.check, given)
    if ok then
        return "accepted"
    end
    require_that(type(err) == "string" and string.find(err, "^steelyard%.init_worker: "), "it raises " .. tostring(err))
    return "refused"
end


local function judge_report(text)
    local report = json.decode(text)
    if type(report) ~= "table" or type(report.ids) ~= "table" then
        return "not_json"
    end
    report.figures = {}
    for i = 1, #report.ids do
        local figures = {}
        for name, column in pairs(report) do
            figures[name] = type(column) == "table" and column[i] or nil
        end
        figures.load = type(report.loads) == "table" and report.loads[report.ids[i]] or nil
        report.figures[i] = figures
    end
    -- The encoder gets our own figures: it may refuse a figure, but must always write JSON.
    local ok, written = pcall(traffic_report.encode, report, function() end)
    if not ok then
        return "unwritable"
    end
    require_that(json.decode(written), "what it writes is no JSON: " .. written)
    return "accepted"
end


local EJECT = { error_rate = 0.5, requests = 5, consecutive = 5, base_s = 5, max_s = 300, share = 0.34 }

--- Another load balancer's failures, beside some at this one. With any figures, at most one server of three is ejected.
local function judge_failures(text)
    local told, figures = {}, {}
    local ok = failure_report.decode(text, "edge-2", { web = { 1, 5 } }, function(name, at, row)
        require_that(name == "web" and type(at) == "string", "a row of no upstream")
        told[#told + 1] = row
    end)
    for i = 1, 3 do
        figures[i] = { id = "s" .. i, address = "s" .. i .. ":80", completed = 0, failed = 1, others = told }
    end
    local pool = { peers = 3, completed = 20, failed = 3 }
    local memory, decisions = outlier_detection.judge({}, figures, pool, EJECT, 1)
    require_that(#decisions <= 1, #decisions .. " of three are ejected")
    require_that(json.encode(memory), "a memory that cannot be kept")
    return ok and "accepted" or "refused"
end


local function judge_orca(text)
    local in_flight = orca.in_flight(text, base64.decode)
    require_that(in_flight == nil or in_flight >= 0 and in_flight <= orca.MAX_IN_FLIGHT, "in flight out of bounds")
    local load, malformed = orca.load(text, base64.decode)
    if not load then
        return malformed and "malformed" or "nothing"
    end
    require_that(not malformed, "a load of a malformed report")
    for _, name in ipairs({ "utilization", "mem_utilization" }) do
        local value = load[name]
        require_that(value == nil or (value >= 0 and value <= 64), name .. " is out of bounds")
    end
    local names = 0
    for name, value in pairs(load.named_metrics or {}) do
        names = names + 1
        require_that(wire.is_name(name), "a metric's name is none")
        require_that(value >= -1e15 and value <= 1e15, "a metric is out of bounds")
    end
    require_that(names <= 8, names .. " named metrics")
    require_that(json.encode(load), "a load that cannot be reported")
    return "accepted", load
end


local JUDGES = {
    ["weight-table"] = judge_table, head = judge_head, chunks = judge_chunks, list = judge_list,
    slices = judge_slices, signed = judge_signed, address = judge_address, options = judge_options,
    report = judge_report, orca = judge_orca, failures = judge_failures,
}

for line in io.lines() do
    local name, length = string.match(line, "^(%S+) (%d+)$")
    local kept, outcome, value = pcall(JUDGES[name], tonumber(length) > 0 and io.read(tonumber(length)) or "")
    local answer = kept and { outcome = outcome, value = value } or { broken = tostring(outcome) }
    io.write(json.encode(answer), "\n")
    io.flush()
end
