package dictionary

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// similar returns values that resemble each other.
func similar(n int) [][]byte {
	values := make([][]byte, n)
	for i := range values {
		values[i] = fmt.Appendf(nil, `{"metadata":{"name":"web-%05d","namespace":"team-%d","uid":"%032x","labels":{"app":"app-%02d"}},"spec":%s}`,
			i, i%10, i*7919, i%100, strings.Repeat(`{"image":"registry.example.org/team/web:1.24.3","args":["--port=8080"]}`, 1+i%3))
	}
	return values
}

func check(t *testing.T, e *Encoder, value []byte) {
	t.Helper()
	packed := e.Encode(value)
	if packed == nil {
		return
	}
	for _, buf := range [][]byte{nil, {1, 2, 3}, bytes.Repeat([]byte("x"), len(value)+1)} {
		if got := e.Dictionary().Decode(packed, buf); !bytes.Equal(got, value) {
			t.Fatalf("%.100q of %d bytes was compressed and is %.100q of %d", value, len(value), got, len(got))
		}
	}
}

func TestEncode(t *testing.T) {
	values := similar(1000)
	e := Train(values[:100])
	raw, compressed := 0, 0
	for _, v := range values {
		check(t, e, v)
		raw, compressed = raw+len(v), compressed+len(e.Encode(v))
	}
	if compressed > raw/4 {
		t.Errorf("%d bytes were compressed to %d", raw, compressed)
	}
	if n := len(e.dictionary.data); n > 8<<10 {
		t.Errorf("the dictionary of samples that resemble each other has %d bytes", n)
	}
}

// TestMatchesAreLong: repetitions within a sample do not divide the matches of values that resemble it. Values of two kinds, each with
// the same words in an order of its own, alternate.
func TestMatchesAreLong(t *testing.T) {
	words := []string{"type", "status", "message", "reason", "lastProbeTime", "lastTransitionTime", "image", "ports", "protocol", "env", "hostIP", "phase"}
	var fields [2]strings.Builder
	for kind := range fields {
		random := rand.New(rand.NewPCG(uint64(kind), 0))
		word := func() string { return words[random.IntN(len(words))] }
		for range 60 {
			fmt.Fprintf(&fields[kind], `"f:%s":{".":{},"f:%s":{}},`, word(), word())
		}
	}
	value := func(i int) []byte {
		return fmt.Appendf(nil, `{"name":"web-%05d","uid":"%032x",%s"time":"%08x","node":"node-%03d"}`, i, i*7919, &fields[i%2], i*104729, i%500)
	}
	var samples [][]byte
	for i := range 40 {
		samples = append(samples, value(i))
	}
	e := Train(samples)
	for i := 100; i < 110; i++ {
		if packed := e.Encode(value(i)); packed == nil || len(packed) > 100 {
			t.Errorf("%d bytes were compressed to %d", len(value(i)), len(packed))
		}
		check(t, e, value(i))
	}
}

// TestEncodeRandom compresses values that are cut from the dictionary and mixed with random data.
func TestEncodeRandom(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		text := func(n, alphabet int) []byte {
			b := make([]byte, random.IntN(n))
			for i := range b {
				b[i] = byte(random.IntN(alphabet))
			}
			return b
		}
		samples := [][]byte{text(60<<10, 256), text(100, 2), text(3000, 4)}
		e := Train(samples)
		for range 50 {
			var value []byte
			for range random.IntN(6) {
				sample := samples[random.IntN(len(samples))]
				from := random.IntN(len(sample) + 1)
				value = append(value, sample[from:from+random.IntN(len(sample)-from+1)]...)
				value = append(value, text(30, 256)...)
			}
			check(t, e, value)
			check(t, Train(nil), value)
		}
	}
}

// TestEncodeIncompressible checks that incompressible values stay as they are.
func TestEncodeIncompressible(t *testing.T) {
	random := rand.NewChaCha8([32]byte{})
	for _, n := range []int{0, 1, 8, 1000} {
		value := make([]byte, n)
		random.Read(value)
		if packed := Train(similar(10)).Encode(value); packed != nil {
			t.Errorf("%d random bytes were compressed to %d", n, len(packed))
		}
	}
}

func FuzzEncode(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz"), []byte("ghijklmnopqrstuvwxyzabcdefghijklmnop"))
	f.Add([]byte(nil), bytes.Repeat([]byte("abcdefg"), 100))
	f.Fuzz(func(t *testing.T, sample, value []byte) {
		check(t, Train([][]byte{sample}), value)
		check(t, Train([][]byte{sample, value}), value)
	})
}

func BenchmarkEncode(b *testing.B) {
	values := similar(1000)
	e := Train(values[:100])
	b.SetBytes(int64(len(values[0])))
	for i := 0; b.Loop(); i++ {
		e.Encode(values[i%len(values)])
	}
}

func BenchmarkDecode(b *testing.B) {
	values := similar(1000)
	e := Train(values[:100])
	packed := e.Encode(values[0])
	b.SetBytes(int64(len(values[0])))
	for b.Loop() {
		e.Dictionary().Decode(packed, nil)
	}
}
