package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"flyball.dev/bench/fixture"
)

// listFormat is a format in which lists compares the lists of two servers.
type listFormat struct {
	name, accept, encoding string
	query, referenceQuery  string // of the server, and of the reference server
	times                  int    // how often the server lists for each list of the reference server
	goal                   float64
}

const table = "application/json;as=Table;g=meta.k8s.io;v=v1"

// listFormats returns the formats, with the goals for the CPU time in proportion to the reference server. The reference server, too, has
// an index of the pods by node, but not for two requirements.
func listFormats() []listFormat {
	const protobuf, json = runtime.ContentTypeProtobuf, runtime.ContentTypeJSON
	label, node := "?labelSelector="+fixture.AppLabel+"%3D"+fixture.App(0), "?fieldSelector=spec.nodeName%3D"+fixture.Node(0)
	return []listFormat{
		{name: "protobuf", accept: protobuf, encoding: "identity", times: 3, goal: 0.25},
		{name: "protobuf, compressed", accept: protobuf, encoding: "gzip", times: 1},
		{name: "JSON", accept: json, encoding: "identity", times: 1, goal: 0.4},
		{name: "JSON, compressed", accept: json, encoding: "gzip", times: 1},
		{name: "table", accept: table, encoding: "identity", times: 1},
		{name: "protobuf, by label", accept: protobuf, encoding: "identity", query: label, referenceQuery: label, times: 3},
		{name: "protobuf, by node", accept: protobuf, encoding: "identity", query: node, referenceQuery: node + ",spec.nodeName%3D" + fixture.Node(0),
			times: 30, goal: 0.02},
	}
}

// listRounds is how often each format is listed on both servers in turn.
const listRounds = 3

// lists creates n pods, waits until they are idle, and lists them alternately on the server and on the reference server: a second server
// without the fast path, which decodes, filters and encodes. It prints the CPU time of each format and the anonymous memory before, during
// and after the lists, and whether they reach the goals. A pod costs what the server takes above its memory at rest with one pod. The
// client decodes nothing.
func lists(ctx context.Context, s *server, n int) error {
	var goals goals
	idle, err := s.writePods(ctx, n, &goals)
	if err != nil {
		return err
	}
	reference, err := s.startReference(ctx)
	if err != nil {
		return err
	}
	defer reference.stop()
	client, err := reference.client()
	if err != nil {
		return err
	}
	if err := createNodesAndNamespaces(ctx, client); err != nil {
		return err
	}
	if err := reference.createPodsOnNodes(ctx, client, 0, n); err != nil {
		return err
	}
	if _, err := reference.settled(ctx); err != nil {
		return err
	}
	var peak use
	for _, f := range listFormats() {
		used, err := compareLists(ctx, s, reference, f, n, &goals)
		if err != nil {
			return err
		}
		peak = max(peak, used)
	}
	again, err := s.settled(ctx)
	if err != nil {
		return err
	}
	goals.add("memory at most during lists, to idle", peak.to(idle), 1.5)
	goals.add("memory after lists, to idle", again.to(idle), 1.5)
	goals.print()
	return nil
}

// writePods creates n pods on nodes, and returns the use when nobody has used them for a while.
func (s *server) writePods(ctx context.Context, n int, goals *goals) (idle use, err error) {
	client, err := s.client()
	if err != nil {
		return 0, err
	}
	if err := createNodesAndNamespaces(ctx, client); err != nil {
		return 0, err
	}
	if err := s.createPodsOnNodes(ctx, client, 0, 1); err != nil {
		return 0, err
	}
	before, err := s.settled(ctx)
	if err != nil {
		return 0, err
	}
	spent := time.Duration(0)
	peak, err := s.during(ctx, func() error {
		return s.addCPU(&spent, func() error { return s.createPodsOnNodes(ctx, client, 1, n) })
	})
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, 30*time.Second); err != nil {
		return 0, err
	}
	soon, err := s.use()
	if err != nil {
		return 0, err
	}
	if idle, err = s.settled(ctx); err != nil {
		return 0, err
	}
	fmt.Printf("one pod: %v\nwritten: at most %v, %.2f KiB a pod; %.0f µs of CPU time for each\n30 seconds later: %v, %.2f KiB a pod\nidle: %v, %.2f KiB a pod\n",
		before, peak, peak.each(before, n), float64(spent.Microseconds())/float64(n), soon, soon.each(before, n), idle, idle.each(before, n))
	goals.add("memory 30 seconds after the last write, to idle", soon.to(idle), 1.5)
	goals.add("KiB of idle memory a pod", idle.each(before, n), 1500.0/kib)
	return idle, nil
}

// startReference starts a server of the same sort without the fast path.
func (s *server) startReference(ctx context.Context) (*server, error) {
	o := s.options
	o.WithoutFastPath, o.Profile, o.Heap = true, "", ""
	if o.DataDir != "" {
		o.DataDir = filepath.Join(s.dir, "reference") // which ends with s
	}
	reference, err := startServer(ctx, s.binary, "", o)
	if err != nil {
		return nil, err
	}
	reference.pod = s.pod
	return reference, nil
}

// compareLists lists n pods in a format on both servers in turn. It prints the CPU time, and returns the largest use of the first one.
func compareLists(ctx context.Context, first, reference *server, f listFormat, n int, goals *goals) (use, error) {
	var costs [2]listCost
	for range listRounds {
		for i, s := range []*server{first, reference} {
			query, times := f.query, f.times
			if s == reference {
				query, times = f.referenceQuery, 1
			}
			if err := s.list(ctx, "/api/v1/pods"+query, f, times, &costs[i]); err != nil {
				return 0, err
			}
		}
	}
	ours, theirs := costs[0], costs[1]
	ratio := ours.each() / theirs.each()
	fmt.Printf("%s: %.3f s of CPU time, %.2f µs a pod, %.3f s until the last byte, at most %v; without the fast path %.3f s, %.3f s and %v; %.1f and %.1f MB; ratio %.3f\n",
		f.name, ours.each(), ours.each()*1e6/float64(n), ours.took.Seconds()/float64(ours.lists), ours.peak,
		theirs.each(), theirs.took.Seconds()/float64(theirs.lists), theirs.peak, float64(ours.size)/1e6, float64(theirs.size)/1e6, ratio)
	if f.goal > 0 {
		goals.add(f.name+", CPU time to a list of the reference server", ratio, f.goal)
	}
	return ours.peak, nil
}

// listCost is the cost of several lists.
type listCost struct {
	cpu, took time.Duration
	lists     int
	size      int64 // of one
	peak      use
}

// each returns the seconds of CPU time for a list.
func (c listCost) each() float64 { return c.cpu.Seconds() / float64(c.lists) }

// list lists objects, and adds to the cost. The CPU time is also the time of the garbage collector meanwhile.
func (s *server) list(ctx context.Context, path string, f listFormat, times int, cost *listCost) error {
	https, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return err
	}
	defer https.CloseIdleConnections()
	peak, err := s.during(ctx, func() error {
		return s.addCPU(&cost.cpu, func() error {
			for range times {
				took, size, err := s.read(ctx, https, path, f.accept, f.encoding)
				if err != nil {
					return err
				}
				cost.took, cost.size, cost.lists = cost.took+took, size, cost.lists+1
			}
			return nil
		})
	})
	cost.peak = max(cost.peak, peak)
	return err
}
