--- The load (ORCA) and the requests in flight that servers report in their answers: note them for picks and for the
-- traffic report.

local number = require "steelyard.core.number"
local orca = require "steelyard.core.orca"
local peer_cells = require "steelyard.core.peer_cells"
local worker = require "steelyard.phase.worker"

local ngx, trusted = ngx, number.trusted

-- Looking for a header costs 0.15 us, and there are three. While no server of an upstream has sent one, answers are
-- looked at this often.
local LOOK_INTERVAL_S = 0.1

local _M = {}


--- Note the text of a server's load report (ORCA), and return it; it is parsed once a traffic report. Servers of gRPC
-- send it in binary, in the trailers.
function _M.load(var, live, address)
    local load = var.upstream_http_endpoint_load_metrics
    if not load then
        local binary = var.upstream_http_endpoint_load_metrics_bin
                       or (live.settings.grpc and var.upstream_trailer_endpoint_load_metrics_bin)
        load = binary and "BIN " .. binary or nil -- not false: callers ask for nil
    end
    if load then
        worker.loads:note(address, load)
    end
    return load
end


local note_load = _M.load


--- Note a server's own reports of its load and of its requests in flight, if servers send them or a look is due. Picks
-- go by the requests in flight as of the header's time.
-- @param header_at when the header came, if that is known better than from nginx's variables
function _M.busy(var, entry, peer, live, at, header_at)
    local is_look_due, load, header = at - live.looked_at >= LOOK_INTERVAL_S, nil, nil
    if is_look_due or live.reports_load then
        load = note_load(var, live, peer.address)
        live.reports_load = live.reports_load or load ~= nil
    end
    if is_look_due or live.reports_in_flight then
        header = var.upstream_http_x_steelyard_in_flight
        live.reports_in_flight = live.reports_in_flight or header ~= nil
    end
    if is_look_due then
        live.looked_at = at
    end
    local in_flight = header and number.decimal(header, 0, orca.MAX_IN_FLIGHT)
                      or load and orca.in_flight(load, ngx.decode_base64)
    local header_s = in_flight and live.picker.note_reported and trusted(var.upstream_header_time)
    if header_s and peer.cell ~= peer_cells.NONE then
        header_at = header_at or at - math.max(0, trusted(var.request_time) - header_s)
        live.picker:note_reported(peer, in_flight + (entry.held_cell and 0 or 1), header_at)
    end
end


return _M
