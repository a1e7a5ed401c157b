--- GET /steelyard/metrics: the same as the status page, for Prometheus.

local document = require "steelyard.phase.document"
local metrics = require "steelyard.core.metrics"
local page = require "steelyard.phase.page"

--- Answer with the metrics; 403 to whom `allow` does not name.
return page(metrics.CONTENT_TYPE, function(send, breathe)
    metrics.write(document(breathe), send, breathe)
end)
