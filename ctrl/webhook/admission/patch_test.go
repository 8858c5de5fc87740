package admission

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gomodules.xyz/jsonpatch/v2"
)

// lines returns operations in their order, a line each.
func lines(ops []jsonpatch.Operation) []string {
	var lines []string
	for _, op := range ops {
		lines = append(lines, op.Json())
	}
	return lines
}

// sorted returns operations as sorted lines: the library's are in random order.
func sorted(ops []jsonpatch.Operation) string {
	return strings.Join(slices.Sorted(slices.Values(lines(ops))), "\n")
}

func TestCreatePatch(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`{"a":1,"b":{"c":[1,2]}}`, ` { "b" : {"c":[1,2]}, "a" : 1 } `, ``},
		{`{"a":9007199254740993}`, `{"a":9007199254740995}`, `{"op":"replace","path":"/a","value":9007199254740995}`},
		{`{"a":9223372036854775808}`, `{"a":18446744073709551615}`, `{"op":"replace","path":"/a","value":18446744073709551615}`},
		{`{"a":-9007199254740993}`, `{"a":-9007199254740995}`, `{"op":"replace","path":"/a","value":-9007199254740995}`},
		{`{"a":9007199254740994}`, `{"a":0.1}`, `{"op":"replace","path":"/a","value":0.1}`},
		{`{}`, `{"a":[9007199254740993,0.5,1e2]}`, `{"op":"add","path":"/a","value":[9007199254740993,0.5,100]}`},
		{`{"a":1}`, `{"a":1.0}`, ``},
		{`{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, `{"op":"replace","path":"/a~1b/~0","value":2}`},
		{`{"a":["x","y","z"]}`, `{"a":["x"]}`, "{\"op\":\"remove\",\"path\":\"/a/2\"}\n{\"op\":\"remove\",\"path\":\"/a/1\"}"},
		{`{"a":"\u0041"}`, `{"a":"A"}`, ``},
		{`{"a":null}`, `{"a":1}`, `{"op":"replace","path":"/a","value":1}`},
		{`{"a":1}`, `{"a":null}`, `{"op":"replace","path":"/a","value":null}`},
	} {
		got, err := createPatch([]byte(c.from), []byte(c.to))
		if text := strings.Join(lines(got), "\n"); err != nil || text != c.want {
			t.Errorf("from %s to %s: got %s, %v, want %s", c.from, c.to, text, err, c.want)
		}
	}
}

func TestCreatePatchOfDeepDocuments(t *testing.T) {
	deep := func(value string) []byte {
		return []byte(strings.Repeat(`{"a":[`, 5000) + value + strings.Repeat(`]}`, 5000))
	}
	got, err := createPatch(deep("1"), deep("2"))
	if want := strings.Repeat("/a/0", 5000); err != nil || len(got) != 1 || got[0].Path != want {
		t.Errorf("got %d operations, %v", len(got), err)
	}
}

// FuzzCreatePatch compares the patch with the library's.
func FuzzCreatePatch(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":{"b":[{"c":1},2]},"d":"x"}`, `{"a":{"b":[{"c":2}]},"e":null}`}, {`[]`, `{}`}, {`"\u00e9"`, `"é"`},
		{`{"a":1,"a":2}`, `{"a":1}`}, {`{`, `{}`}, {`1.0`, ` 1 `}, {"{\"\xff\":1}", `{"\ufffd":2}`}, {`{"\"":1}`, `{"\"":[ ]}`},
		{`{"a":"\\\"}","b":-1e3}`, `{"a":"]","b":true}`}, {`[1,[2,{}],3]`, `[1,[2],{"x":[]}]`}, {`1e400`, `2`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	large := regexp.MustCompile(`[0-9]{16}|[eE]\+?[0-9]`) // numbers that the library rounds
	f.Fuzz(func(t *testing.T, from, to []byte) {
		if large.Match(from) || large.Match(to) {
			return
		}
		got, err := createPatch(slices.Clone(from), slices.Clone(to))
		want, wantErr := jsonpatch.CreatePatch(from, to)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("the error is %v, want %v", err, wantErr)
		}
		if sorted(got) != sorted(want) {
			t.Fatalf("got\n%s\nwant\n%s", sorted(got), sorted(want))
		}
	})
}
