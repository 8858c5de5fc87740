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
		{name: "nothing", in: "", err: "there is no manifest; want Node or List, or --nodes 0"},
		{name: "a comment", in: "---\n# nothing\n---\n", err: "there is no manifest; want Node or List, or --nodes 0"},
		{name: "an empty list", in: "{apiVersion: v1, kind: List, items: []}\n", want: []string{}},
		{name: "lines of Windows", in: "apiVersion: v1\r\nkind: Node\r\nmetadata:\r\n  name: a\r\n---\r\napiVersion: v1\r\nkind: Node\r\nmetadata: {name: b}\r\n", want: []string{"a", "b"}},
		{name: "tabs", in: "apiVersion: v1\nkind: Node\nmetadata:\n\tname: a\n", err: "error converting YAML to JSON: yaml: line 4: found character that cannot start any token"},
		{name: "documents", in: "{apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: b}}\n", want: []string{"a", "b"}},
		{name: "a list, as kubectl prints it", in: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: a, uid: u, resourceVersion: '1'}\n" +
			"  status: {capacity: {cpu: 4}}\n- {apiVersion: v1, kind: Node, metadata: {name: b}}\n", want: []string{"a", "b"}},
		{name: "JSON", in: `{"apiVersion":"v1","kind":"NodeList","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}]}`, want: []string{"a"}},
		{name: "several documents in JSON", in: `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}` + "\n" + `{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}}`, want: []string{"a", "b"}},
		{name: "half a document in JSON", in: `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}} {"apiVersion":`, err: "unexpected EOF"},
		{name: "a list of the API server", in: `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`, want: []string{"a", "b"}},
		{name: "an item without a kind", in: "{apiVersion: v1, kind: List, items: [{metadata: {name: a}}]}", err: "a manifest has no kind; want Node or List"},
		{name: "another item", in: "{apiVersion: v1, kind: NodeList, items: [{apiVersion: v1, kind: Pod}]}", err: "a manifest has the kind Pod; want Node or List"},
		{name: "another version", in: "{apiVersion: example.com/v1, kind: Node, metadata: {name: a}}", err: `a manifest of the kind Node has the apiVersion "example.com/v1"; want v1`},
		{name: "no version", in: "{kind: Node, metadata: {name: a}}", err: `a manifest of the kind Node has the apiVersion ""; want v1`},
		{name: "a field twice", in: "apiVersion: v1\nkind: Node\nmetadata: {name: a, name: b}\n", err: "node"},
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
			got := []string{}
			for _, n := range nodes {
				got = append(got, n.Name)
			}
			if d := cmp.Diff(tt.want, got); d != "" || err != nil {
				t.Error(d, err)
			}
		})
	}
}
