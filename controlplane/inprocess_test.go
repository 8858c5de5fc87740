package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/authentication/user"
)

func inProcessClient(handler http.HandlerFunc) (*http.Client, *inProcess) {
	t := newInProcess(handler, &user.DefaultInfo{Name: "tester"})
	return &http.Client{Transport: t}, t
}

func TestResponses(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		status  int
		body    string
		err     error
	}{
		{"body only", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }, 200, "hello", nil},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, 200, "", nil},
		{"status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); w.WriteHeader(500) }, 404, "", nil},
		{"echo", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }, 200, "question", nil},
		{"abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "", errAborted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client, _ := inProcessClient(tc.handler)
			resp, err := client.Post("http://x/path", "text/plain", strings.NewReader("question"))
			if tc.err != nil || err != nil {
				if !errors.Is(err, tc.err) {
					t.Errorf("error %v, want %v", err, tc.err)
				}
				return
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tc.status || string(body) != tc.body {
				t.Errorf("got %d %q, %v; want %d %q", resp.StatusCode, body, err, tc.status, tc.body)
			}
		})
	}
}

func TestRequestIsNotChanged(t *testing.T) {
	client, _ := inProcessClient(func(_ http.ResponseWriter, r *http.Request) { r.Header.Del("Authorization") })
	req, err := http.NewRequest(http.MethodGet, "http://x/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer token")
	if _, err := client.Do(req); err != nil {
		t.Fatal(err)
	}
	if req.Header.Get("Authorization") == "" {
		t.Error("the handler changed the client's request")
	}
}

// watched requests a watch from a handler that writes "first" and then calls rest.
func watched(t *testing.T, ctx context.Context, rest func(w http.ResponseWriter, r *http.Request)) (*http.Response, *inProcess) {
	t.Helper()
	client, transport := inProcessClient(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		rest(w, r)
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "first" {
		t.Fatalf("read %q, %v", got, err)
	}
	return resp, transport
}

// untilLeft is a handler that returns when the client has left.
func untilLeft(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestWatches(t *testing.T) {
	t.Run("ends with the handler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			resp, _ := watched(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "last") })
			if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "last" {
				t.Errorf("read %q, %v", rest, err)
			}
		})
	})
	t.Run("ends when the body is closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			resp, transport := watched(t, t.Context(), untilLeft)
			resp.Body.Close()
			transport.drain()
		})
	})
	t.Run("ends when the context does", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			resp, transport := watched(t, ctx, untilLeft)
			cancel()
			if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
				t.Errorf("read: %v, want that the context was cancelled", err)
			}
			transport.drain()
		})
	})
	t.Run("is cut short by an abort", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			abort := make(chan struct{})
			resp, _ := watched(t, t.Context(), func(http.ResponseWriter, *http.Request) {
				<-abort
				panic(http.ErrAbortHandler)
			})
			close(abort)
			if _, err := io.ReadAll(resp.Body); !errors.Is(err, errAborted) {
				t.Errorf("read: %v, want that it was aborted", err)
			}
		})
	})
	t.Run("blocks a writer whose reader is slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			written := 0
			resp, transport := watched(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
				for range 100 {
					n, _ := w.Write(make([]byte, pipeBuffer/10))
					written += n
				}
			})
			synctest.Wait()
			if written > 2*pipeBuffer {
				t.Errorf("%d bytes were buffered", written)
			}
			if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 100*(pipeBuffer/10) {
				t.Errorf("read %d bytes, %v", len(rest), err)
			}
			transport.drain()
		})
	})
}

func TestErrorResponseOfWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, transport := inProcessClient(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, "nothing ")
			io.WriteString(w, "here")
		})
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusNotFound || string(body) != "nothing here" {
			t.Errorf("got %d %q, %v", resp.StatusCode, body, err)
		}
		transport.drain()
	})
}

func TestDrainWaitsAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		client, transport := inProcessClient(func(http.ResponseWriter, *http.Request) { <-release })
		answered := make(chan error, 1)
		go func() {
			_, err := client.Get("http://x/")
			answered <- err
		}()
		synctest.Wait()
		drained := make(chan struct{})
		go func() {
			transport.drain()
			close(drained)
		}()
		synctest.Wait()
		if _, err := client.Get("http://x/"); !errors.Is(err, errStopped) {
			t.Errorf("a late request got %v", err)
		}
		select {
		case <-drained:
			t.Error("drained with a request under way")
		default:
		}
		close(release)
		<-drained
		if err := <-answered; err != nil {
			t.Errorf("the request under way got %v", err)
		}
	})
}

// FuzzPipe writes and reads by turns and compares with a buffer.
func FuzzPipe(f *testing.F) {
	f.Add([]byte{5, 0, 3, 0, 200, 1, 7})
	f.Fuzz(func(t *testing.T, steps []byte) {
		p, model, next := newPipe(), &bytes.Buffer{}, byte(0)
		for i, step := range steps {
			if i%2 == 0 {
				chunk := bytes.Repeat([]byte{next}, int(step))
				next++
				p.Write(chunk)
				model.Write(chunk)
			} else if model.Len() > 0 {
				got, want := make([]byte, step), make([]byte, step)
				n, err := p.Read(got)
				m, _ := model.Read(want)
				if err != nil || n != m || !bytes.Equal(got, want) {
					t.Fatalf("read %d bytes, %v; want %d", n, err, m)
				}
			}
		}
		p.closeWrite()
		rest, err := io.ReadAll(p)
		if err != nil || !bytes.Equal(rest, model.Bytes()) {
			t.Fatalf("%d bytes were left, %v; want %d", len(rest), err, model.Len())
		}
	})
}

// TestWrapTransportWithoutListen checks that WrapTransport returns its argument without Listen: no requests can stay in
// the process.
func TestWrapTransportWithoutListen(t *testing.T) {
	plane, err := Start(t.Context(), Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	rt := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if got := plane.WrapTransport(rt); got != rt {
		t.Errorf("%T, want the transport itself", got)
	}
}
