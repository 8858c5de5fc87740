package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flyball.dev/record"
)

// TestDiffIntegers: integers that are the same as float64 differ, and are printed in full.
func TestDiffIntegers(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int64) string {
		path := filepath.Join(dir, name)
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		began := time.Unix(1000, 0)
		w, err := record.NewWriter(file, record.Header{Began: began})
		if err != nil {
			t.Fatal(err)
		}
		r := &record.Resource{Group: "example.com", Version: "v1", Name: "widgets", Kind: "Widget", Namespaced: true}
		for _, e := range []record.Entry{
			{Type: record.Served, Time: began, Resource: r},
			{Type: record.Added, Time: began, Resource: r, Namespace: "default", Name: "a", Object: json.RawMessage(fmt.Sprintf(
				`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":"default","name":"a","uid":"1"},"spec":{"size":%d}}`, size))},
			{Type: record.Listed, Time: began, Resource: r},
		} {
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second := write("first", 9007199254740992), write("second", 9007199254740993)
	for _, format := range []string{"", "json"} {
		var out bytes.Buffer
		different, err := diffMoments(&out, first, second, nil, format)
		if err != nil || !different || !strings.Contains(out.String(), "9007199254740992") || !strings.Contains(out.String(), "9007199254740993") {
			t.Errorf("format %q: %v, %v: %s", format, different, err, &out)
		}
	}
}
