package benchmarks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
)

// admissions are the ways in which a pod is admitted.
var admissions = []struct{ name, path, hostname string }{
	{"validate", runtimes.ValidatePath, ""},
	{"default nothing", runtimes.DefaultPath, "host"},
	{"default", runtimes.DefaultPath, "other"},
}

// webhooks has pods admitted by the handler of a webhook server, without a socket.
func (o Options) webhooks() measure.Benchmark {
	b := measure.Benchmark{
		Name:  "webhook/admissions",
		About: "admit a pod: a validator, a defaulter that changes nothing, and one that does; all processors, no socket",
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) { return o.admit(rt) }),
	}
	for _, a := range admissions {
		b.Metrics = append(b.Metrics,
			measure.Metric{Name: a.name, Unit: measure.Rate},
			measure.Metric{Name: a.name + " cpu", Unit: measure.Time},
			measure.Metric{Name: a.name + " allocs", Unit: measure.Count},
			measure.Metric{Name: a.name + " garbage", Unit: measure.Garbage})
	}
	return b
}

func (o Options) admit(rt runtimes.Runtime) (measure.Sample, error) {
	review, err := podReview()
	if err != nil {
		return nil, err
	}
	const batch = 100 // reviews by each processor
	sample := measure.Sample{}
	for _, a := range admissions {
		handler := rt.NewWebhooks(clientgoscheme.Scheme, a.hostname)
		cost, err := measure.Repeat(o.Budget, func() error {
			return parallel(func() error { return post(handler, a.path, review, batch) })
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		n := float64(batch * runtime.GOMAXPROCS(0))
		sample[a.name] = n / cost.Time.Seconds()
		sample[a.name+" cpu"] = float64(cost.CPU) / n
		sample[a.name+" allocs"] = cost.Allocs / n
		sample[a.name+" garbage"] = cost.Bytes / n
	}
	return sample, nil
}

// podReview returns a review of the creation of a pod.
func podReview() ([]byte, error) {
	pod := fixture.Pod(0)
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Spec.Hostname = "host"
	pod.Status = corev1.PodStatus{}
	encoded, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Operation: admissionv1.Create, Namespace: pod.Namespace, Name: pod.Name,
		Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		UserInfo: authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:authenticated"}},
	}}
	review.Request.Object.Raw = encoded
	review.APIVersion, review.Kind = "admission.k8s.io/v1", "AdmissionReview"
	return json.Marshal(review)
}

// parallel runs f once for each processor, at the same time.
func parallel(f func() error) error {
	errs := make([]error, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = f() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// post sends a review to handler n times. It fails if the object is not allowed.
func post(handler http.Handler, path string, review []byte, n int) error {
	w := &response{header: http.Header{}}
	for range n {
		r, err := http.NewRequest(http.MethodPost, path, bytes.NewReader(review))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		w.Reset()
		handler.ServeHTTP(w, r)
		if !bytes.Contains(w.Bytes(), []byte(`"allowed":true`)) {
			return fmt.Errorf("the response is %s", w)
		}
	}
	return nil
}

// response is an http.ResponseWriter that is used again and again.
type response struct {
	bytes.Buffer
	header http.Header
}

func (w *response) Header() http.Header { return w.header }
func (w *response) WriteHeader(int)     {}
