--- The options of init_worker: checked once at the start, with defaults filled in. Pure.
--
-- OPTIONS names each of them once. core/validate says what a row consists of, and core/upstream_options has the options
-- of an upstream.

local address = require "steelyard.core.address"
local number = require "steelyard.core.number"
local signed = require "steelyard.core.signed"
local upstream_options = require "steelyard.core.upstream_options"
local validate = require "steelyard.core.validate"
local wire = require "steelyard.core.wire"

-- One or two fetches may be lost without a change of rung.
local FRESH_S, FRESH_FETCHES = 3, 3

-- The share of a core for the exchange. With a dozen servers, its default allows an exchange each 5 ms.
local SHARE_IN_FLIGHT = { { "cpu_share", validate.NUMBER, 0.001, 0.5, 0.02 } }

-- Shorter keys can be guessed.
local MIN_KEY_BYTES = 16

local MAX_PORT = 65535

-- The port of http.
local DEFAULT_PORT = 80

-- Many servers accept at most 8 kB of headers; tokens have some 50 bytes.
local MAX_TOKEN_BYTES = 1024

local bad, matching, within = validate.bad, validate.matching, validate.within


--- Refuse a value that is no table.
local function must_be_table(value, option, remedy)
    if type(value) ~= "table" then
        bad(option, "must be a table", remedy)
    end
end


local function memcached_servers(given, option)
    local remedy = 'write it as memcached = {"127.0.0.1:11211"}'
    local servers = {}
    must_be_table(given, option, remedy)
    for i, text in ipairs(given) do
        local host, port = string.match(tostring(text), "^(.+):(%d+)$")
        port = number.whole(port, 1, MAX_PORT)
        if not port then
            bad(option, "has " .. tostring(text) .. ", which is no host:port", remedy)
        end
        servers[i] = { host = host, port = port, name = text }
    end
    if #servers == 0 then
        bad(option, "is empty", remedy)
    end
    return servers
end


local function controllers(given, option)
    local remedy = 'write it as controller = {"http://10.0.0.5:8081"}'
    local servers = {}
    must_be_table(given, option, remedy)
    for i, url in ipairs(given) do
        local host, port, path = string.match(tostring(url), "^http://([%w.-]+):?(%d*)(/?[%w/._-]*)$")
        if not host then
            host, port, path = string.match(tostring(url), "^http://(%[[%x:.]+%]):?(%d*)(/?[%w/._-]*)$")
        end
        port = port == "" and DEFAULT_PORT or number.whole(port, 1, MAX_PORT)
        if not port then
            bad(option, "has " .. tostring(url) .. ", which is no http:// URL", remedy)
        end
        servers[i] = {
            host = host, port = port, name = url,
            path_prefix = string.gsub(path, "/$", ""),
        }
    end
    return servers
end


local function upstreams(given, option, _, settings)
    local remedy = 'write it as upstreams = { web = { bootstrap = {"10.0.0.11:80"} } }'
    local checked = {}
    if given == nil and settings.any_upstream then
        return checked
    end
    must_be_table(given, option, remedy)
    for name, options in pairs(given) do
        if not wire.is_name(name) then
            bad(option, "has " .. tostring(name) .. ", which is no name", remedy)
        end
        local full_name = option .. "." .. name
        must_be_table(options, full_name, remedy)
        checked[name] = upstream_options.check(full_name .. ".", options)
    end
    if next(checked) == nil then
        bad(option, "is empty", remedy)
    end
    return checked
end


--- The settings of the upstreams in the controller's list that nginx.conf does not name.
local function any_upstream(given, option)
    must_be_table(given, option, "write it as any_upstream = {}, or with the options of an upstream")
    return upstream_options.check_for_any(option .. ".", given)
end


local function lb(given, option)
    if not wire.is_name(given) then
        bad(option, "must name this load balancer", 'write it as lb = "edge-1", and differently on each machine')
    end
    return given
end


local function key(given, option)
    if type(given) ~= "string" or #given < MIN_KEY_BYTES then
        bad(option, "must be a string of at least " .. MIN_KEY_BYTES .. " bytes",
            'write it as key = os.getenv("STEELYARD_KEY"), with `env STEELYARD_KEY;` in nginx.conf')
    end
    if string.find(given, "^lb%.") and not signed.load_balancer_keys(given) then
        bad(option, "begins as a load balancer's key does, and is not whole",
            "write it as `steelyard keys lb NAME` prints it")
    end
    return given
end


local function allowed_networks(networks, option)
    local remedy = 'write it as allow = {"10.0.0.0/8", "::1"}'
    if type(networks) ~= "table" then
        bad(option, "must be a list", remedy)
    end
    for _, network in ipairs(networks) do
        if type(network) ~= "string" or not address.network(network) then
            bad(option, "has " .. tostring(network), remedy)
        end
    end
    return networks
end


--- Return the settings of the exchange of requests in flight; nil: there is none.
local function share_in_flight(given, option)
    if given == false then
        return nil
    end
    return validate.table_of_numbers(given == true and {} or given, SHARE_IN_FLIGHT, option,
                                     "must be true, false or a table",
                                     "write it as share_in_flight = true, or { cpu_share = 0.02 }")
end


local SECONDS = validate.SECONDS

-- Rows are checked in this order: a check may look at the settings that are above it.
local OPTIONS = {
    { name = "memcached", required = true, check = memcached_servers, taken_by = "io/fetch" },
    { name = "controller", default = {}, check = controllers, taken_by = "io/fetch" },
    -- It goes into a header unchanged. No error message shows it.
    { name = "controller_token", unset = "no token",
      check = matching(validate.text("^[!-~]+$", MAX_TOKEN_BYTES),
                       "must be a string of 1.." .. MAX_TOKEN_BYTES .. " visible ASCII characters",
                       'write it as controller_token = os.getenv("STEELYARD_TOKEN"), with `env STEELYARD_TOKEN;` '
                       .. "in nginx.conf"),
      taken_by = "io/controller_source" },
    { name = "key", unset = "no signatures", check = key, taken_by = "phase/worker" },
    { name = "state_dir", unset = "tables are not saved",
      check = matching(validate.text("^/"), "must be an absolute path",
                       'write it as state_dir = "/var/lib/steelyard"'),
      taken_by = "io/saved_tables" },
    { name = "lb", required = true, check = lb, taken_by = "io/traffic_reporter" },
    { name = "zone", unset = "no zone",
      check = matching(wire.is_name, "is %s", 'write it as zone = "eu-1a", as the servers near it have it'),
      taken_by = "phase/worker" },
    { name = "installation", unset = "the only one",
      check = matching(wire.is_name, "is %s", 'write it as installation = "shop", as its controllers have it'),
      taken_by = "io/list_fetch" },
    { name = "any_upstream", unset = "nginx.conf's upstreams alone", check = any_upstream,
      taken_by = "phase/listed_upstreams" },
    { name = "upstreams", required = true, check = upstreams, taken_by = "phase/worker" },
    { name = "dict", default = "steelyard", check = matching("string", "must name a lua_shared_dict",
                                                             'write it as dict = "steelyard"'),
      taken_by = "phase/worker" },
    -- A new table is served within this and 0.2 s.
    { name = "fetch_interval_s", default = 0.5, check = within(SECONDS, 0.05, 60), taken_by = "phase/jobs" },
    -- The controller's tick.
    { name = "report_interval_s", default = 1, check = within(SECONDS, 0.1, 60), taken_by = "phase/jobs" },
    -- A restart of the control plane is no reason to move.
    { name = "hold_s", default = 60, check = within(SECONDS, 0, 86400),
      read_as = "limits.hold_s", taken_by = "core/ladder" },
    -- Slow enough to be noticed before it matters.
    { name = "drift_s", default = 300, check = within(SECONDS, 1, 86400),
      read_as = "limits.drift_s", taken_by = "core/ladder" },
    { name = "allow", default = {}, check = allowed_networks, taken_by = "phase/status_pages" },
    { name = "share_in_flight", default = true, check = share_in_flight, taken_by = "phase/worker" },
}

local _M = {
    OPTIONS = OPTIONS,
    -- Fields derived from options: phase/worker adds the keys.
    DERIVED = { "names", "declared", "limits", "keys" },
}


--- Check the options and fill in the defaults; raises with option and remedy.
function _M.check(options)
    if type(options) ~= "table" then
        error("steelyard.init_worker: needs a table of options: " .. validate.names(OPTIONS), 0)
    end
    local checked = validate.options(OPTIONS, options, "")
    local names = {}
    for name in pairs(checked.upstreams) do
        names[#names + 1] = name
    end
    table.sort(names)
    checked.names = names
    -- `upstreams` becomes those that are served: with any_upstream, more than nginx.conf declares.
    checked.declared = checked.upstreams
    checked.limits = {
        fresh_s = math.max(FRESH_S, FRESH_FETCHES * checked.fetch_interval_s),
        hold_s = checked.hold_s, drift_s = checked.drift_s,
    }
    return checked
end


return _M
