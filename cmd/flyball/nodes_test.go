package main

import (
	"os"
	"path/filepath"
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
		{args: "--nodes-from /nonexistent", err: "stat /nonexistent: no such file or directory"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var f nodeFlags
			flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
			f.add(flags)
			if err := flags.Parse(strings.Fields(tt.args)); err != nil {
				t.Fatal(err)
			}
			var o pods.Options
			err := f.apply(t.Context(), flags, &o)
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

func TestNodesFrom(t *testing.T) {
	const (
		a, b = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}`, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}}`
		none = "there are no objects in FILE"
	)
	for _, tt := range []struct {
		name, in string
		want     []string
		err      string
	}{
		{name: "nothing", in: "", err: none},
		{name: "a comment", in: "---\n# nothing\n---\n", err: none},
		{name: "an empty list", in: "{apiVersion: v1, kind: List, items: []}\n", err: none},
		{name: "documents", in: a + "\n---\n" + b, want: []string{"a", "b"}},
		{name: "documents without a line between them", in: "{apiVersion: v1, kind: Node, metadata: {name: a}}\n{apiVersion: v1, kind: Node, metadata: {name: b}}\n",
			err: "FILE: document 1: another document follows in it: a line with --- alone must be before each"},
		{name: "several documents in JSON", in: a + "\n" + b, want: []string{"a", "b"}},
		{name: "half a document in JSON", in: a + `{"apiVersion":`, err: "FILE: document 1: another document follows in it"},
		{name: "lines of Windows", in: "apiVersion: v1\r\nkind: Node\r\nmetadata:\r\n  name: a\r\n---\r\napiVersion: v1\r\nkind: Node\r\nmetadata: {name: b}\r\n", want: []string{"a", "b"}},
		{name: "a list, as kubectl prints it", in: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: a, uid: u, resourceVersion: '1'}\n" +
			"  status: {capacity: {cpu: 4}}\n- {apiVersion: v1, kind: Node, metadata: {name: b}}\n", want: []string{"a", "b"}},
		{name: "a list of the API server", in: `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`, want: []string{"a", "b"}},
		{name: "an item without a kind", in: "{apiVersion: v1, kind: List, items: [{metadata: {name: a}}]}", err: "FILE: document 1: "},
		{name: "another item", in: "{apiVersion: v1, kind: NodeList, items: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]}", err: "FILE: a manifest has the kind Pod of v1; want Node or List of v1"},
		{name: "another kind", in: "{apiVersion: v1, kind: Pod, metadata: {name: a}}", err: "FILE: a manifest has the kind Pod of v1; want Node or List of v1"},
		{name: "another version", in: "{apiVersion: example.com/v1, kind: Node, metadata: {name: a}}", err: "FILE: a manifest has the kind Node of example.com/v1; want Node or List of v1"},
		{name: "no kind", in: "{apiVersion: v1, metadata: {name: a}}", err: "FILE: document 1: kind is required"},
		{name: "no version", in: "{kind: Node, metadata: {name: a}}", err: "FILE: document 1: apiVersion is required"},
		{name: "an unknown field", in: "{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {taint: []}}", err: `FILE: node "a": strict decoding error: unknown field "spec.taint"`},
		{name: "a field twice", in: "apiVersion: v1\nkind: Node\nmetadata: {name: a, name: b}\n", err: "FILE: document 1: "},
		{name: "a quantity that is none", in: "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {capacity: {cpu: many}}}", err: `FILE: node "a": quantities must match the regular expression`},
		{name: "tabs", in: "apiVersion: v1\nkind: Node\nmetadata:\n\tname: a\n", err: "FILE: document 1: "},
		{name: "no YAML", in: "a: b: c", err: "FILE: document 1: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "nodes")
			if err := os.WriteFile(file, []byte(tt.in), 0o600); err != nil {
				t.Fatal(err)
			}
			nodes, err := readNodes(t.Context(), file)
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), file, "FILE"), tt.err) {
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
