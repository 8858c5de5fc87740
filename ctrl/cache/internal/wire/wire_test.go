package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	protobufType = apiruntime.ContentTypeProtobuf
	jsonType     = apiruntime.ContentTypeJSON
)

// representation is a representation of pods and its encoding.
type representation struct {
	name, media string
	config      func(*rest.Config) *rest.Config
	resource    Resource
}

var (
	podKind  = corev1.SchemeGroupVersion.WithKind("Pod")
	metaKind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")

	typed = Resource{
		Name: "pods", Kind: podKind, ListKind: podKind.GroupVersion().WithKind("PodList"),
		New:     func() client.Object { return &corev1.Pod{} },
		NewList: func() (client.ObjectList, error) { return &corev1.PodList{}, nil },
	}
	untyped = Resource{
		Name: "pods", Kind: podKind, ListKind: podKind.GroupVersion().WithKind(""),
		New:     func() client.Object { return &unstructured.Unstructured{} },
		NewList: func() (client.ObjectList, error) { return &unstructured.UnstructuredList{}, nil },
	}
	partial = Resource{
		Name: "pods", Kind: metaKind, ListKind: metaKind.GroupVersion().WithKind("PartialObjectMetadataList"),
		New:     func() client.Object { return &metav1.PartialObjectMetadata{} },
		NewList: func() (client.ObjectList, error) { return &metav1.PartialObjectMetadataList{}, nil },
	}

	representations = []representation{
		{"typed-protobuf", protobufType, typedConfig, typed},
		{"typed-json", jsonType, typedConfig, typed},
		{"unstructured-json", jsonType, dynamic.ConfigFor, untyped},
		{"metadata-protobuf", protobufType, metadata.ConfigFor, partial},
		{"metadata-json", jsonType, metadata.ConfigFor, partial},
	}
)

func typedConfig(c *rest.Config) *rest.Config {
	c.ContentType = protobufType
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return c
}

func response(code int, contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Body: body, Header: http.Header{"Content-Type": {contentType}}}
}

// respondWith returns a transport that responds with a body.
func respondWith(contentType string, b io.ReadCloser) fakeapi.Func {
	return func(*http.Request) (*http.Response, error) { return response(http.StatusOK, contentType, b), nil }
}

// newClient returns a client with a transport.
func (f representation) newClient(t testing.TB, respond fakeapi.Func) *Client {
	t.Helper()
	gv := podKind.GroupVersion()
	config := f.config(&rest.Config{Host: "http://server", APIPath: "/api", QPS: -1, ContentConfig: rest.ContentConfig{GroupVersion: &gv}})
	c, err := NewClient(config, &http.Client{Transport: respond}, f.resource)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// replay returns a client. Its watches consist of these bytes, which are read in pieces of these
// sizes.
func (f representation) replay(t testing.TB, stream []byte, pieces ...int) *Client {
	return f.newClient(t, func(*http.Request) (*http.Response, error) {
		return response(http.StatusOK, f.media+";stream=watch", &recording{left: stream, pieces: pieces}), nil
	})
}

// recording is a response body with given contents.
type recording struct {
	left   []byte
	pieces []int // the sizes of reads, repeated cyclically
	closed int
}

func (r *recording) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := min(len(r.left), len(p))
	if len(r.pieces) > 0 {
		n = min(n, max(1, r.pieces[0]))
		r.pieces = append(r.pieces[1:], r.pieces[0])
	}
	copy(p, r.left[:n])
	r.left = r.left[n:]
	return n, nil
}

func (r *recording) Close() error { r.closed++; return nil }

// pod returns a pod with fields of many types.
func pod(n int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: fmt.Sprint("pod-", n), ResourceVersion: strconv.Itoa(1000 + n), UID: "0-1-2",
			Labels: map[string]string{"app": `"quoted\" {`, "tier": "web"}, Annotations: map[string]string{"note": "ü [} \n"},
			CreationTimestamp: metav1.Unix(1_700_000_000, 0),
			ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: strings.Repeat("image", 20),
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
		}}, Priority: new(int32(-7))},
		Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, Conditions: []corev1.PodCondition{}},
	}
}

// realistic returns a pod of typical size.
func realistic(n int) *corev1.Pod {
	p := pod(n)
	fields := `{"f:status":{"f:conditions":{},"f:containerStatuses":{},"f:podIP":{},"f:phase":{}}}`
	p.ManagedFields[0].FieldsV1.SetRawString(`[` + strings.Repeat(fields+",", 12) + fields + `]`)
	c := &p.Spec.Containers[0]
	for i := range 6 {
		name := fmt.Sprint("name-", i)
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: "a value"})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/var/run/" + name})
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}})
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: name, Operator: "Exists", TolerationSeconds: new(int64(300))})
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(name), Status: "True", LastTransitionTime: p.CreationTimestamp})
	}
	return p
}

// encode encodes an object, or a list, as a server sends it.
func (f representation) encode(obj apiruntime.Object) []byte {
	if p, ok := obj.(*corev1.Pod); ok && f.resource.Kind == metaKind {
		obj = &metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta}
	}
	if l, ok := obj.(*corev1.PodList); ok && f.resource.Kind == metaKind {
		list := &metav1.PartialObjectMetadataList{ListMeta: l.ListMeta}
		for _, p := range l.Items {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta})
		}
		obj = list
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		gvks, _, err = metaScheme.ObjectKinds(obj)
	}
	if err != nil {
		panic(err)
	}
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(gvks[0])
	info, _ := apiruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), f.media)
	data, err := apiruntime.Encode(info.Serializer, obj)
	if err != nil {
		panic(err)
	}
	return data
}

var metaScheme = func() *apiruntime.Scheme {
	s := apiruntime.NewScheme()
	if err := metav1.AddMetaToScheme(s); err != nil {
		panic(err)
	}
	return s
}()

// frame encodes an event.
func (f representation) frame(kind watch.EventType, obj apiruntime.Object) []byte {
	return f.frameOf(string(kind), f.encode(obj))
}

func (f representation) frameOf(kind string, object []byte) []byte {
	info, _ := apiruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), f.media)
	event := metav1.WatchEvent{Type: kind, Object: apiruntime.RawExtension{Raw: object}}
	var frame bytes.Buffer
	if err := info.StreamSerializer.Encode(&event, info.StreamSerializer.Framer.NewFrameWriter(&frame)); err != nil {
		panic(err)
	}
	return frame.Bytes()
}

// stream returns a watch stream with events of all types.
func (f representation) stream(n int) []byte {
	var stream []byte
	for i := range n {
		kind := []watch.EventType{watch.Added, watch.Modified, watch.Deleted}[i%3]
		stream = append(stream, f.frame(kind, pod(i))...)
	}
	stream = append(stream, f.frame(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7000"}})...)
	status := apierrors.NewResourceExpired("too old").ErrStatus
	return append(stream, f.frame(watch.Error, &status)...)
}

// events returns all events of a watch.
func (c *Client) events(t testing.TB, ctx context.Context) (all []watch.Event, err error) {
	t.Helper()
	s, err := c.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		events, err := s.Next()
		if err != nil {
			return all, err
		}
		all = append(all, events...)
	}
}

// clientGoEvents returns all events of a watch as client-go decodes them.
func (c *Client) clientGoEvents(t testing.TB) (all []watch.Event) {
	t.Helper()
	w, err := c.ClientGoWatch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		all = append(all, e)
	}
	return all
}

// trimDecodingError removes the final event if it is a decoding error, and reports whether it was.
func trimDecodingError(events []watch.Event) ([]watch.Event, bool) {
	if n := len(events) - 1; n >= 0 && events[n].Type == watch.Error {
		if apierrors.HasStatusCause(apierrors.FromObject(events[n].Object), "ClientWatchDecoding") {
			return events[:n], true
		}
	}
	return events, false
}

// Streams are decoded as client-go decodes them.
func TestWatchEqualsClientGo(t *testing.T) {
	for _, f := range representations {
		whole := f.stream(40)
		one := f.frame(watch.Added, pod(1))
		streams := map[string][]byte{
			"nothing":                nil,
			"some":                   whole,
			"many":                   bytes.Repeat(f.frame(watch.Added, pod(1)), 1000),
			"cut":                    whole[:len(whole)/2],
			"another kind":           f.frame(watch.Added, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}),
			"an unknown type":        append(one[:len(one):len(one)], f.frameOf("PEACE", f.encode(pod(2)))...),
			"no type":                f.frameOf("", f.encode(pod(2))),
			"no object":              f.frameOf("ADDED", nil),
			"invalid bytes in front": append([]byte("<html>"), whole...),
			"invalid bytes behind":   append(one[:len(one):len(one)], "<html>"...),
			"a large object":         append(f.frame(watch.Added, large(1<<20)), one...),
			"a few large objects":    bytes.Repeat(f.frame(watch.Added, large(200<<10)), 5),
		}
		if f.name == "typed-protobuf" || f.name == "unstructured-json" {
			streams["an object too large"] = append(f.frame(watch.Added, large(maxFrame)), one...)
		}
		if f.media == jsonType {
			object := string(f.encode(pod(3)))
			for name, text := range map[string]string{
				"spaces":               " \n{ \"type\" : \"ADDED\" , \"object\" : " + object + " }\n\t",
				"another order":        `{"object":` + object + `,"type":"ADDED"}`,
				"another member":       `{"type":"ADDED","object":` + object + `,"more":[1,{"a":null}]}`,
				"twice":                `{"type":"ADDED","object":` + object + `,"object":{}}`,
				"escaped names":        `{"typ\u0065":"ADDED","object":` + object + `}`,
				"other case":           `{"Type":"ADDED","Object":` + object + `}`,
				"no frames":            "[]",
				"an empty frame":       "{}",
				"null":                 "null",
				"brackets do not pair": `{"type":"ADDED","object":{"kind":"Pod"]}`,
				"no kind":              `{"type":"ADDED","object":{"metadata":{}}}`,
				"no version":           `{"type":"ADDED","object":{"kind":"Pod"}}`,
				"numbers":              `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","n":[1,-2.5e3,9223372036854775808,true,null,"x"]}}`,
				"a bad number":         `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","n":01}}`,
				"items":                `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","items":[{}]}}`,
				"a bad string":         "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"n\":\"\x01\"}}",
			} {
				streams[name] = []byte(text)
			}
		} else {
			streams["an empty frame"] = make([]byte, 4)
			streams["an incomplete length"] = append(one[:len(one):len(one)], 0, 0)
			streams["a prefix alone"] = f.frameOf("ADDED", []byte("k8s\x00"))
			streams["no prefix"] = f.frameOf("ADDED", []byte("k9s\x00abc"))
			streams["no objects"] = f.frameOf("ADDED", append([]byte("k8s\x00"), 0x12, 0x7f))
			streams["unknown fields"] = f.frameOf("ADDED", append(f.encode(pod(1)), 0x78, 1))
		}
		for name, stream := range streams {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				want, wantInvalid := trimDecodingError(f.replay(t, stream).clientGoEvents(t))
				got, err := f.replay(t, stream).events(t, t.Context())
				got, gotInvalid := trimDecodingError(got)
				if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
					t.Error("events differ from client-go's", cmp.Diff(want, got))
				}
				// For an excessive length, client-go waits for more data.
				wantInvalid = wantInvalid || f.media == protobufType && strings.HasPrefix(name, "invalid bytes")
				if gotInvalid != wantInvalid || err != io.EOF {
					t.Errorf("decoding error %v, want %v; error %v", gotInvalid, wantInvalid, err)
				}
			})
		}
	}
}

// large returns a pod of at least the given size.
func large(size int) *corev1.Pod {
	p := pod(0)
	p.Annotations["large"] = strings.Repeat("x", size)
	return p
}

// The result does not depend on how a stream is split into reads.
func TestSplitReads(t *testing.T) {
	for _, f := range representations {
		stream := f.stream(2)
		want := f.replay(t, stream).clientGoEvents(t)
		for first := range stream {
			got, _ := f.replay(t, stream, first, len(stream)).events(t, t.Context())
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s, split at %d of %d: %v", f.name, first, len(stream), cmp.Diff(want, got))
			}
		}
		stream = f.stream(200)
		want = f.replay(t, stream).clientGoEvents(t)
		for _, piece := range []int{1, 7, 5000, 17_000, 100_000} {
			if got, _ := f.replay(t, stream, piece).events(t, t.Context()); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, in pieces of %d: %v", f.name, piece, cmp.Diff(want, got))
			}
		}
	}
}

// No memory is allocated for a length before the data arrives.
func TestExcessiveLength(t *testing.T) {
	r := reader{ctx: t.Context(), split: lengthSplitter{}, body: strings.NewReader("\x00\xff\xff\xff" + "some bytes")}
	if b := r.next(); b.err != io.EOF || len(b.frames) != 0 || cap(r.buf) > chunk {
		t.Errorf("%v, %d bytes", b.err, cap(r.buf))
	}
	r = reader{ctx: t.Context(), split: lengthSplitter{}, body: strings.NewReader("\xff\xff\xff\xff" + "some bytes")}
	if b := r.next(); b.err != errTooLarge || cap(r.buf) > chunk {
		t.Errorf("%v, %d bytes", b.err, cap(r.buf))
	}
}

// Invalid JSON is detected while the connection is open.
func TestInvalidJSONIsDetectedEarly(t *testing.T) {
	for _, text := range []string{"<", "{x", `{"a"x`, `{"a":1 2`, `{"a":[1}`, `{"a":{,`, `{"a":}`, "[", `{"a":1,}`, `{"a"::`, `{]`, `{"a":{}"`} {
		o := objectSplitter{}
		if _, _, err := o.next([]byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

// pipe is a response body that a test writes to.
type pipe struct {
	*io.PipeReader
	mu     sync.Mutex
	read   int
	closed bool
}

func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.PipeReader.Read(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read += n
	return n, err
}

func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.PipeReader.Close()
}

func (f representation) pipe(t *testing.T) (*Client, *pipe, *io.PipeWriter) {
	r, w := io.Pipe()
	p := &pipe{PipeReader: r}
	return f.newClient(t, respondWith(f.media, p)), p, w
}

// Reading ahead is bounded: a slow watcher causes backpressure.
func TestReadAheadIsBounded(t *testing.T) {
	for _, f := range representations {
		synctest.Test(t, func(t *testing.T) {
			c, p, server := f.pipe(t)
			frame := f.frame(watch.Added, pod(1))
			go func() {
				for {
					if _, err := server.Write(bytes.Repeat(frame, 1000)); err != nil {
						return
					}
				}
			}()
			s, err := c.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			taken := 0
			for taken < 4000 {
				events, err := s.Next()
				if err != nil {
					t.Fatal(err)
				}
				taken += len(events)
			}
			synctest.Wait()
			bound := taken*len(frame) + (4+runtime.GOMAXPROCS(0))*chunk
			if p.read > bound {
				t.Errorf("%d bytes were read, want %d at most", p.read, bound)
			}
			s.Close()
			if !p.closed {
				t.Error("the body was not closed")
			}
			if _, err := s.Next(); err != io.EOF {
				t.Errorf("after closing: %v", err)
			}
			server.Close()
		})
	}
}

// Events that arrive one by one take no goroutine, even after a large batch.
func TestSingleEvents(t *testing.T) {
	for _, f := range representations {
		synctest.Test(t, func(t *testing.T) {
			c, _, server := f.pipe(t)
			write := func(data []byte) { go server.Write(data) }
			s, err := c.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			take := func(n int) {
				for n > 0 {
					events, err := s.Next()
					if err != nil {
						t.Fatal(err)
					}
					n -= len(events)
				}
			}
			write(bytes.Repeat(f.frame(watch.Added, pod(1)), 2000))
			take(2000)
			synctest.Wait()
			for i := range 5 {
				write(f.frame(watch.Modified, pod(i)))
				take(1)
				synctest.Wait()
				if i > 0 && (s.ahead != nil || cap(s.reader.buf) > smallBuffer) {
					t.Errorf("%s: event %d was read ahead", f.name, i)
				}
			}
		})
	}
}

// A stream ends with its context and returns its error.
func TestContextCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 5000} {
			c, p, server := representations[0].pipe(t)
			if n > 0 {
				go server.Write(bytes.Repeat(representations[0].frame(watch.Added, pod(1)), n))
			}
			ctx, cancel := context.WithCancel(t.Context())
			s, err := c.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				if _, err := s.Next(); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			for err == nil {
				_, err = s.Next()
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after %d events: %v", n, err)
			}
			synctest.Wait()
			if !p.closed {
				t.Error("the body was not closed")
			}
			s.Close()
			server.Close()
		}
	})
}

// Watches are opened concurrently, and each gets the body of its own response.
func TestConcurrentWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, release := representations[0], make(chan struct{})
		c := f.newClient(t, func(r *http.Request) (*http.Response, error) {
			version := r.URL.Query().Get("resourceVersion")
			if version == "1" {
				<-release
			}
			p := pod(0)
			p.ResourceVersion = version
			frame := f.frame(watch.Added, p)
			return response(http.StatusOK, f.media, io.NopCloser(bytes.NewReader(frame))), nil
		})
		open := func(version string) {
			s, err := c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			events, err := s.Next()
			if err != nil || events[0].Object.(*corev1.Pod).ResourceVersion != version {
				t.Errorf("watch %s: got %v, %v", version, events, err)
			}
		}
		var first sync.WaitGroup
		first.Go(func() { open("1") })
		synctest.Wait()
		for n := range 10 {
			open(strconv.Itoa(n + 2))
		}
		close(release)
		first.Wait()
	})
}

// The errors of opening a watch and of lists are client-go's.
func TestErrorsEqualClientGo(t *testing.T) {
	status := func(err *apierrors.StatusError) fakeapi.Func {
		return func(r *http.Request) (*http.Response, error) {
			resp := response(int(err.ErrStatus.Code), jsonType, io.NopCloser(bytes.NewReader(representations[1].encode(&err.ErrStatus))))
			resp.Request = r
			return resp, nil
		}
	}
	text := func(code int, contentType, body string) fakeapi.Func {
		return func(r *http.Request) (*http.Response, error) {
			resp := response(code, contentType, io.NopCloser(strings.NewReader(body)))
			resp.Request = r
			return resp, nil
		}
	}
	broken := func(err error) fakeapi.Func {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	for name, respond := range map[string]fakeapi.Func{
		"gone":             status(apierrors.NewResourceExpired("too old")),
		"forbidden":        status(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))),
		"later":            status(apierrors.NewTooManyRequests("later", 7)),
		"a web page":       text(http.StatusBadGateway, "text/html", "<html>bad gateway"),
		"an unknown type":  text(http.StatusOK, "application/cbor", "\xa0"),
		"no type at all":   text(http.StatusOK, "", string(representations[1].stream(2))),
		"no content":       text(http.StatusNoContent, jsonType, ""),
		"no connection":    broken(errors.New("connection refused")),
		"broken":           broken(io.ErrUnexpectedEOF),
		"a list, to watch": text(http.StatusOK, jsonType, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`),
	} {
		for _, f := range representations {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { // some are retried
					w, want := f.newClient(t, respond).ClientGoWatch(t.Context(), metav1.ListOptions{})
					var wantEvents, gotEvents []watch.Event
					if want == nil {
						for e := range w.ResultChan() {
							wantEvents = append(wantEvents, e)
						}
					}
					s, got := f.newClient(t, respond).Watch(t.Context(), metav1.ListOptions{})
					for got == nil {
						events, err := s.Next()
						if err != nil {
							s.Close()
							break
						}
						gotEvents = append(gotEvents, events...)
					}
					wantEvents, wantInvalid := trimDecodingError(wantEvents)
					gotEvents, gotInvalid := trimDecodingError(gotEvents)
					if fmt.Sprint(got) != fmt.Sprint(want) || apierrors.ReasonForError(got) != apierrors.ReasonForError(want) ||
						gotInvalid != wantInvalid || !reflect.DeepEqual(gotEvents, wantEvents) {
						t.Errorf("watch: %v, %v, want %v, %v", got, gotEvents, want, wantEvents)
					}
					_, want = f.newClient(t, respond).ClientGoList(t.Context(), metav1.ListOptions{})
					_, got = f.newClient(t, respond).List(t.Context(), metav1.ListOptions{})
					if fmt.Sprint(got) != fmt.Sprint(want) || apierrors.ReasonForError(got) != apierrors.ReasonForError(want) {
						t.Errorf("list: %v, want %v", got, want)
					}
				})
			})
		}
	}
}

// collect returns the objects of a page.
func collect(objects iter.Seq2[client.Object, error]) (all []apiruntime.Object, err error) {
	for obj, err := range objects {
		if err != nil {
			return all, err
		}
		all = append(all, obj)
	}
	return all, nil
}

// Lists are decoded as client-go decodes them.
func TestListEqualsClientGo(t *testing.T) {
	for _, f := range representations {
		list := func(n int) []byte {
			l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "next", RemainingItemCount: new(int64(5))}}
			for i := range n {
				l.Items = append(l.Items, *pod(i))
			}
			return f.encode(l)
		}
		bodies := map[string][]byte{
			"none": list(0), "one": list(1), "many": list(1000), "cut": list(10)[:len(list(10))*2/3],
			"another kind": f.encode(&corev1.ConfigMapList{Items: []corev1.ConfigMap{{Data: map[string]string{"a": "b"}}}}),
			"no list":      f.encode(pod(1)),
			"nothing":      nil,
			"invalid":      []byte("<html>"),
		}
		if f.media == jsonType {
			head := fmt.Sprintf(`{"apiVersion":%q,"kind":"%sList",`, f.resource.Kind.GroupVersion(), f.resource.Kind.Kind)
			for name, rest := range map[string]string{
				"items first":       `"items":[{"metadata":{"name":"a"}}],"metadata":{"resourceVersion":"5"}}`,
				"items alone":       `"items":[ {"metadata":{"name":"a"}} , {} ] } `,
				"no items":          `"metadata":{"resourceVersion":"5"}}`,
				"items are null":    `"items":null}`,
				"an item is null":   `"items":[null]}`,
				"a number more":     `"items":[],"n":1}`,
				"more":              `"items":[{"kind":"X","apiVersion":"y/v1","metadata":{"name":"a"},"more":[1,2.5]}],"more":{"a":{}}}`,
				"twice":             `"items":[{}],"items":[]}`,
				"other items":       `"items":[{"metadata":{"name":"a"}}],"items":[{}]}`,
				"a bad item":        `"items":[{"metadata":{"name":"a"}},{"metadata":7}]}`,
				"an item of a kind": `"items":[7]}`,
				"no end":            `"items":[]`,
				"a comma too much":  `"items":[{},]}`,
				"a comma too few":   `"items":[{}{}]}`,
			} {
				bodies[name] = []byte(head + rest)
			}
			bodies["no kind"] = []byte(`{"items":[{"metadata":{"name":"a"}}]}`)
		}
		for name, data := range bodies {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				compareList(t, f, data)
			})
		}
	}
}

// compareList compares how this package and client-go decode a list.
func compareList(t *testing.T, f representation, data []byte) {
	t.Helper()
	c := f.newClient(t, respondWith(f.media, io.NopCloser(bytes.NewReader(data))))
	decoded, wantErr := c.ClientGoList(t.Context(), metav1.ListOptions{})
	var want []apiruntime.Object
	if wantErr == nil {
		want, wantErr = meta.ExtractList(decoded)
	}
	c = f.newClient(t, respondWith(f.media, io.NopCloser(bytes.NewReader(data))))
	page, err := c.List(t.Context(), metav1.ListOptions{})
	var got []apiruntime.Object
	if err == nil {
		got, err = collect(page.Objects)
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: error %v, want %v", data, err, wantErr)
	}
	if err != nil {
		return
	}
	if len(want)+len(got) > 0 && !reflect.DeepEqual(got, want) {
		t.Error("objects differ from client-go's", cmp.Diff(want, got))
	}
	if page.Version != decoded.GetResourceVersion() || page.Next != decoded.GetContinue() {
		t.Errorf("version %q, next %q", page.Version, page.Next)
	}
}

// Ending the iteration of a page early leaks no goroutines.
func TestPageIterationEndsEarly(t *testing.T) {
	for _, f := range representations {
		l := &corev1.PodList{}
		for i := range 2000 {
			l.Items = append(l.Items, *pod(i))
		}
		c := f.newClient(t, respondWith(f.media, io.NopCloser(bytes.NewReader(f.encode(l)))))
		page, err := c.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for obj, err := range page.Objects {
			if err != nil || obj.GetName() != fmt.Sprint("pod-", n) {
				t.Errorf("%v, %v", obj, err)
			}
			if n++; n == 10 {
				break
			}
		}
	}
}

// The lists of all kinds with a protobuf encoding have the usual fields.
func TestConventionalLists(t *testing.T) {
	for gvk := range scheme.Scheme.AllKnownTypes() {
		kind, isList := strings.CutSuffix(gvk.Kind, "List")
		if !isList || gvk.Version == apiruntime.APIVersionInternal || !scheme.Scheme.Recognizes(gvk.GroupVersion().WithKind(kind)) {
			continue
		}
		obj, _ := scheme.Scheme.New(gvk.GroupVersion().WithKind(kind))
		o, ok := obj.(client.Object)
		if !ok {
			continue
		}
		r := Resource{New: func() client.Object { return o }, NewList: func() (client.ObjectList, error) {
			l, err := scheme.Scheme.New(gvk)
			return l.(client.ObjectList), err
		}}
		if !conventionalList(r) {
			t.Errorf("%v does not have the usual fields", gvk)
		}
	}
}
