package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"flyball.dev/controllers/pods"
)

func TestNodeFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string // name, zone, CPUs and memory
		err  string
	}{
		{args: "", want: []string{"flyball  0 0"}},
		{args: "--nodes 0", want: nil},
		{args: "--nodes 3 --node-zones a,b", want: []string{"flyball a 0 0", "flyball-2 b 0 0", "flyball-3 a 0 0"}},
		{args: "--nodes 2 --node-capacity cpu=8", want: []string{"flyball  8 64Ti", "flyball-2  8 64Ti"}},
		{args: "--nodes -1", err: "--nodes must not be negative: -1"},
		{args: "--node-capacity cpu=many", err: "--node-capacity: cpu=many: quantities must match the regular expression"},
		{args: "--nodes-from nodes.yaml --node-zones a", err: "--nodes-from and --node-zones are mutually exclusive"},
		{args: "--nodes-from /nonexistent", err: "open /nonexistent: no such file or directory"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var f nodeFlags
			flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
			f.add(flags)
			if err := flags.Parse(strings.Fields(tt.args)); err != nil {
				t.Fatal(err)
			}
			var o pods.Options
			err := f.apply(flags, &o)
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if o.Nodes == nil {
				t.Error("the nodes are the default nodes")
			}
			var got []string
			for _, n := range o.Nodes {
				got = append(got, strings.Join([]string{n.Name, n.Labels["topology.kubernetes.io/zone"], n.Status.Capacity.Cpu().String(), n.Status.Capacity.Memory().String()}, " "))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodeNodes(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
		err      string
	}{
		{name: "nothing", in: "# nothing\n"},
		{name: "documents", in: "{apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: b}}\n", want: []string{"a", "b"}},
		{name: "a list, as kubectl prints it", in: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: a, uid: u, resourceVersion: '1'}\n" +
			"  status: {capacity: {cpu: 4}}\n- {apiVersion: v1, kind: Node, metadata: {name: b}}\n", want: []string{"a", "b"}},
		{name: "JSON", in: `{"apiVersion":"v1","kind":"NodeList","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}]}`, want: []string{"a"}},
		{name: "another kind", in: "{apiVersion: v1, kind: Pod, metadata: {name: a}}", err: "a manifest has the kind Pod; want Node or List"},
		{name: "no kind", in: "apiVersion: v1", err: "a manifest has no kind; want Node or List"},
		{name: "an unknown field", in: "{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {taint: []}}", err: `node "a": error unmarshaling JSON: while decoding JSON: json: unknown field "taint"`},
		{name: "no YAML", in: "a: b: c", err: "error converting YAML to JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes, err := decodeNodes(strings.NewReader(tt.in))
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			var got []string
			for _, n := range nodes {
				got = append(got, n.Name)
			}
			if d := cmp.Diff(tt.want, got); d != "" || err != nil {
				t.Error(d, err)
			}
		})
	}
}
