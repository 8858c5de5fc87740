package wire

import (
	"bytes"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// FuzzStream reads arbitrary bytes as a watch. The watch must end, and its events must be those
// that client-go decodes.
func FuzzStream(f *testing.F) {
	for i, r := range representations {
		f.Add(uint8(i), uint16(0), r.stream(2))
		f.Add(uint8(i), uint16(3), r.frame(watch.Added, pod(1)))
	}
	f.Add(uint8(0), uint16(0), []byte("\x00\x00\x00\x00"))
	f.Add(uint8(2), uint16(0), []byte(`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}`))
	f.Fuzz(func(t *testing.T, n uint8, piece uint16, stream []byte) {
		compareStream(t, representations[int(n)%len(representations)], stream, int(piece))
	})
}

// compareStream compares how this package and client-go decode a stream.
func compareStream(t *testing.T, f representation, stream []byte, piece int) {
	t.Helper()
	var pieces []int
	if piece > 0 {
		pieces = []int{piece}
	}
	want, _ := trimDecodingError(f.replay(t, stream).clientGoEvents(t))
	got, err := f.replay(t, stream, pieces...).events(t, t.Context())
	got, _ = trimDecodingError(got)
	if err != io.EOF {
		t.Error(err)
	}
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%q: %s", stream, cmp.Diff(want, got))
	}
}

// Damaged streams and lists are decoded as client-go decodes them.
func TestDamagedInput(t *testing.T) {
	for i, f := range representations {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		stream := f.stream(3)
		list := f.encode(&corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Pod{*pod(1), *pod(2)}})
		for range 500 {
			compareStream(t, f, damage(r, stream), r.IntN(500))
			if compareList(t, f, damage(r, list)); t.Failed() {
				return
			}
		}
	}
}

// damage returns a copy of data with random changes.
func damage(r *rand.Rand, data []byte) []byte {
	data = bytes.Clone(data)
	for range 1 + r.IntN(3) {
		from, to := r.IntN(len(data)), r.IntN(len(data))
		switch r.IntN(5) {
		case 0:
			data[from] = byte(r.Uint32())
		case 1:
			data[from] ^= 1 << r.IntN(8)
		case 2:
			data[from] = data[to]
		case 3:
			data = slices.Delete(data, from, min(from+1+r.IntN(4), len(data)))
		case 4:
			data = slices.Insert(data, from, data[to:min(to+1+r.IntN(4), len(data))]...)
		}
	}
	return data
}

// FuzzList reads arbitrary bytes as a list. The result must be client-go's.
func FuzzList(f *testing.F) {
	for i := range representations {
		f.Add(uint8(i), []byte(`{"apiVersion":"v1","kind":"PodList","metadata":{"continue":"x"},"items":[{"metadata":{"name":"a"}},{}]}`))
		f.Add(uint8(i), []byte("k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x02\x12\x00"))
	}
	f.Fuzz(func(t *testing.T, n uint8, body []byte) {
		compareList(t, representations[int(n)%len(representations)], body)
	})
}

// BenchmarkWatch measures reading a watch with many initial events, here and with client-go.
func BenchmarkWatch(b *testing.B) {
	const objects = 5000
	for _, f := range representations {
		var stream []byte
		for i := range objects {
			stream = append(stream, f.frame(watch.Added, realistic(i))...)
		}
		ours := func() int {
			events, _ := 0, 0
			s, err := f.replay(b, stream).Watch(b.Context(), metav1.ListOptions{})
			for err == nil {
				var more []watch.Event
				more, err = s.Next()
				events += len(more)
			}
			s.Close()
			return events
		}
		theirs := func() (events int) {
			w, err := f.replay(b, stream).ClientGoWatch(b.Context(), metav1.ListOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Stop()
			for range w.ResultChan() {
				events++
			}
			return events
		}
		for _, side := range []struct {
			name string
			read func() int
		}{{"flyball", ours}, {"client-go", theirs}} {
			b.Run(f.name+"/"+side.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if n := side.read(); n != objects {
						b.Fatalf("%d events", n)
					}
				}
				b.ReportMetric(float64(objects*b.N)/b.Elapsed().Seconds(), "objects/s")
			})
		}
	}
}

// BenchmarkEvent measures a single event, here and with client-go.
func BenchmarkEvent(b *testing.B) {
	for _, f := range representations {
		frame := f.frame(watch.Modified, realistic(1))
		b.Run(f.name+"/flyball", func(b *testing.B) {
			r, send := oneByOne(b, frame)
			s, err := f.newClient(b, respondWith(f.media, r)).Watch(b.Context(), metav1.ListOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for b.Loop() {
				send()
				if _, err := s.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(f.name+"/client-go", func(b *testing.B) {
			r, send := oneByOne(b, frame)
			s, err := f.newClient(b, respondWith(f.media, r)).ClientGoWatch(b.Context(), metav1.ListOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Stop()
			for b.Loop() {
				send()
				<-s.ResultChan()
			}
		})
	}
}

// oneByOne returns a body and a function that writes the frame to it.
func oneByOne(b *testing.B, frame []byte) (body *io.PipeReader, send func()) {
	b.ReportAllocs()
	r, w := io.Pipe()
	next := make(chan struct{})
	b.Cleanup(func() { close(next) })
	go func() {
		for range next {
			w.Write(frame)
		}
	}()
	return r, func() { next <- struct{}{} }
}
