--- The copy of each table on disk, for an nginx that starts while Memcached and the controllers are down. With the
-- option `any_upstream` the list of upstreams is there, too.
--
-- `<state_dir>/<upstream>.weights` holds the value as Memcached would, with its signature, and is accepted like one. It
-- is written to a file beside it and renamed, so a reader finds the old one or the new one. There is no fsync: at
-- worst, the file that a power failure leaves is refused.
--
-- Writing blocks, but only for the page cache: 1 MB takes 1 ms. So a table is saved when its peers have changed, and at
-- most once in SAVE_S. Signed tables are saved at each generation, also at most once in SAVE_S: after a start the file
-- then shows which tables are old, to within SAVE_S and a fetch.

-- luacheck: read globals os (rename and remove)

local no_pause = require("resty.vnswrr").no_pause
local signature = require "steelyard.io.signature"
local table_acceptance = require "steelyard.io.table_acceptance"
local wire = require "steelyard.core.wire"

local SAVE_S = 5

-- A signature and its dot precede the text. The last byte shows that a file is too large.
local MAX_FILE_BYTES = wire.MAX_TABLE_BYTES + 65 + 1

local _M = {}


--- The file of an upstream's table; nil without the option `state_dir`.
-- Names of upstreams begin with a letter or digit and have no slash.
function _M.path(options, upstream)
    return options.state_dir and options.state_dir .. "/" .. upstream .. ".weights"
end


local function write(path, value)
    local beside = path .. "." .. ngx.worker.pid()
    local file, err = io.open(beside, "wb")
    if not file then
        return nil, err
    end
    local ok
    ok, err = file:write(value)
    -- A full disk is only reported when the file is closed.
    local closed, close_err = file:close()
    ok, err = ok and closed, err or close_err
    if ok then
        ok, err = os.rename(beside, path)
    end
    if not ok then
        os.remove(beside)
    end
    return ok, err
end


local function note(options, store, err)
    -- Without the file's name, which differs between workers.
    err = err and string.match(err, ": ([^:]+)$") or err
    if not store:saved_error_changed(err) then
        return
    end
    if err then
        ngx.log(ngx.ERR, "steelyard: weight tables are not saved (", err, "): nginx's workers must be able to write "
                .. "to the option `state_dir`, ", options.state_dir)
    else
        ngx.log(ngx.NOTICE, "steelyard: weight tables are saved again")
    end
end


--- Save an upstream's table if the one on disk has other peers, and SAVE_S have passed.
-- @param now by the monotonic clock
function _M.keep(options, store, upstream, now, breathe)
    local path = _M.path(options, upstream)
    if not path or not store:is(upstream, "unsaved") then
        return
    end
    local key = "saved_at/" .. upstream
    if math.abs(now - (store.dict:get(key) or -SAVE_S)) < SAVE_S then -- an earlier version noted the time of day
        return
    end
    store.dict:set(key, now)
    store:mark(upstream, "unsaved", false) -- before the text is read: a newer table sets it again
    local text = store:table_text(upstream)
    if not text then
        return
    end
    local ok, err = write(path, signature.sign(options.keys.saved, text, breathe))
    if not ok then
        store:mark(upstream, "unsaved", true)
    end
    note(options, store, not ok and tostring(err) or nil)
end


--- The text of a file, or nil.
local function read(path)
    local file = io.open(path, "rb")
    local value = file and file:read(MAX_FILE_BYTES)
    if file then
        file:close()
    end
    return value
end


--- Remove the copy of an upstream that is no longer served.
function _M.forget(options, upstream)
    local path = _M.path(options, upstream)
    if path then
        os.remove(path)
    end
end


--- The file of the list of upstreams, in which no table can be; nil without the option `state_dir`.
-- Names of installations, too, have no slash.
function _M.list_path(options)
    local of_installation = options.installation and "." .. options.installation or ""
    return options.state_dir and options.state_dir .. "/upstreams" .. of_installation .. ".list"
end


--- Save the list of upstreams.
function _M.write_list(options, store, text)
    if options.state_dir then
        local ok, err = write(_M.list_path(options), signature.sign(options.keys.saved, text))
        note(options, store, not ok and tostring(err) or nil)
    end
end


--- The saved list of upstreams with its signature; nil if there is none.
function _M.read_list(options)
    return options.state_dir and read(_M.list_path(options))
end


local function restore(options, store, upstream, path)
    local value = read(path)
    if not value then
        return -- there is no file yet, or it cannot be read
    end
    local source = { name = store.SAVED, from_disk = true }
    local taken, refused = table_acceptance.accept(options, store, upstream, value, source, no_pause)
    if refused and store:outcome_changed(upstream .. "/saved", refused.reason) then
        ngx.log(ngx.WARN, "steelyard: upstream ", upstream, ": the saved table in ", path, " is refused (",
                refused.reason, "): ", refused.detail)
    elseif taken and store:outcome_changed(upstream .. "/saved", "ok") then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": begins with the table saved in ", path)
    end
end


--- At the start of a worker: load the saved tables of upstreams that have none yet. Also try to write to `state_dir`,
-- so that a fault is logged now.
function _M.restore(options, store)
    if not options.state_dir then
        return
    end
    local probe = options.state_dir .. "/.steelyard"
    local ok, err = write(probe, "")
    if ok then
        os.remove(probe)
    end
    note(options, store, not ok and tostring(err) or nil)
    for _, upstream in ipairs(options.names) do
        -- At version 0 another worker may have set the text, and be about to publish it.
        if store:version(upstream) == 0 then
            restore(options, store, upstream, _M.path(options, upstream))
        end
    end
end


return _M
