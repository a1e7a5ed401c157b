// A Go server that reports its load in its responses: ORCA, from the agent's file, and the requests in flight.
//
//	steelyard-agent --orca /run/steelyard/orca ...
//	go run server.go /run/steelyard/orca 8000
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const readEvery = 250 * time.Millisecond

// loadReport adds the agent's newest value, the requests per second and those in flight to answers.
type loadReport struct {
	next     http.Handler
	file     string
	mutex    sync.Mutex
	value    string
	since    time.Time
	requests int
	inFlight atomic.Int64
}

func (report *loadReport) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	answer.Header().Set("x-steelyard-in-flight", strconv.FormatInt(report.inFlight.Add(1), 10))
	defer report.inFlight.Add(-1)
	if value := report.counted(); value != "" {
		answer.Header().Set("endpoint-load-metrics", value)
	}
	report.next.ServeHTTP(answer, request)
}

func (report *loadReport) counted() string {
	report.mutex.Lock()
	defer report.mutex.Unlock()
	report.requests++
	if past := time.Since(report.since); past >= readEvery {
		// Without a file the agent has ended, or has no figures.
		if agent, err := os.ReadFile(report.file); err != nil {
			report.value = ""
		} else {
			rate := float64(report.requests) / past.Seconds()
			report.value = fmt.Sprintf("%s,rps_fractional=%.3f", strings.TrimSpace(string(agent)), rate)
		}
		report.since, report.requests = time.Now(), 0
	}
	return report.value
}

func main() {
	hello := http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(answer, "hello")
	})
	reporting := &loadReport{next: hello, file: os.Args[1], since: time.Now()}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[2], reporting))
}
