package v1

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/webhook/admission"
	netv1 "flyball.dev/examples/versions/api/v1"
)

// in returns the context of a request in a version.
func in(t *testing.T, version string) context.Context {
	return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		RequestKind: &metav1.GroupVersionKind{Group: netv1.GroupVersion.Group, Version: version, Kind: "Proxy"},
	}})
}

func newProxy(host string, change func(*netv1.Proxy)) *netv1.Proxy {
	p := &netv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: netv1.ProxySpec{Host: host}}
	if change != nil {
		change(p)
	}
	return p
}

func TestDefault(t *testing.T) {
	p := newProxy("host", nil)
	for range 2 { // it is idempotent
		if err := (&ProxyDefaulter{}).Default(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if s := p.Spec; *s.Port != 80 || *s.MaxConnections != 100 || s.Balancing != "RoundRobin" || s.Retries.Attempts != 2 {
			t.Errorf("got %+v", s)
		}
	}
	p = newProxy("host", func(p *netv1.Proxy) { p.Annotations = map[string]string{netv1.RetriesAnnotation: "often"} })
	if err := (&ProxyDefaulter{}).Default(t.Context(), p); err != nil || p.Spec.Retries != nil {
		t.Errorf("unconverted retries were replaced by %+v, %v", p.Spec.Retries, err)
	}
	for balancing, kept := range map[netv1.Balancing]bool{"": true, "RoundRobin": true, "LeastConnections": false} {
		p := newProxy("host", func(p *netv1.Proxy) {
			p.Spec.Balancing = balancing
			p.Annotations = map[string]string{netv1.BalancingAnnotation: "Random"}
		})
		if err := (&ProxyDefaulter{}).Default(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if _, ok := p.Annotations[netv1.BalancingAnnotation]; ok != kept {
			t.Errorf("balancing %q: the annotations are %v", balancing, p.Annotations)
		}
	}
}

func TestValidateCreate(t *testing.T) {
	for _, tt := range []struct {
		name    string
		version string
		proxy   *netv1.Proxy
		want    []string // none if it is valid
	}{
		{"valid", "v1", newProxy("host.example.com", nil), nil},
		{"no host", "v1", newProxy("", nil), []string{"spec.host: Invalid value"}},
		{"no host in v1alpha1", "v1alpha1", newProxy("", nil), []string{"spec.target: Invalid value"}},
		{"name", "v1", newProxy("host", func(p *netv1.Proxy) { p.Name = strings.Repeat("a", 248) }), []string{"metadata.name: Too long"}},
		{"port", "v1", newProxy("host", func(p *netv1.Proxy) { p.Spec.Port = new(int32(65536)) }), []string{"spec.port: Invalid value: 65536"}},
		{"port in v1alpha1", "v1alpha1", newProxy("host", func(p *netv1.Proxy) { p.Spec.Port = new(int32(0)) }), []string{"spec.target: Invalid value: 0"}},
		{"several", "v1beta1", newProxy("a:b", func(p *netv1.Proxy) {
			p.Spec.MaxConnections = new(int32(0))
			p.Spec.Retries = &netv1.Retries{Attempts: 11, Timeout: &metav1.Duration{Duration: -time.Second}}
		}), []string{"spec.host", "spec.connections", "metadata.annotations[net.example.com/v1-retries].attempts",
			"metadata.annotations[net.example.com/v1-retries].timeout"}},
		{"retries in v1", "v1", newProxy("host", func(p *netv1.Proxy) { p.Spec.Retries = &netv1.Retries{Attempts: -1} }),
			[]string{"spec.retries.attempts: Invalid value: -1"}},
		{"an annotation", "v1beta1", newProxy("host", func(p *netv1.Proxy) {
			p.Annotations = map[string]string{netv1.RetriesAnnotation: "often"}
		}), []string{`metadata.annotations[net.example.com/v1-retries]: Invalid value: "often"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := (&ProxyValidator{}).ValidateCreate(in(t, tt.version), tt.proxy)
			checkErrors(t, err, tt.want)
		})
	}
}

// checkErrors checks that an error has those texts, or that there is none.
func checkErrors(t *testing.T, err error, want []string) {
	t.Helper()
	if len(want) == 0 {
		if err != nil {
			t.Errorf("got %v", err)
		}
		return
	}
	if !apierrors.IsInvalid(err) || len(err.(*apierrors.StatusError).ErrStatus.Details.Causes) != len(want) {
		t.Errorf("got %v, want %v", err, want)
		return
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}

func TestValidateUpdate(t *testing.T) {
	bad := newProxy("Bad_Host", nil)
	for _, tt := range []struct {
		name     string
		version  string
		old, new *netv1.Proxy
		want     []string
	}{
		{"unchanged", "v1", newProxy("host", nil), newProxy("host", nil), nil},
		{"another host", "v1", newProxy("host", nil), newProxy("other", nil), []string{"spec.host"}},
		{"another host in v1alpha1", "v1alpha1", newProxy("host", nil), newProxy("other", nil), []string{"spec.target"}},
		{"another port in v1alpha1", "v1alpha1", newProxy("host", nil),
			newProxy("host", func(p *netv1.Proxy) { p.Spec.Port = new(int32(81)) }), nil},
		{"invalid before", "v1", bad, newProxy("Bad_Host", func(p *netv1.Proxy) { p.Spec.SetDefaults() }), nil},
		{"invalid before, and more", "v1", bad,
			newProxy("Bad_Host", func(p *netv1.Proxy) { p.Spec.MaxConnections = new(int32(0)) }), []string{"spec.maxConnections"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := (&ProxyValidator{}).ValidateUpdate(in(t, tt.version), tt.old, tt.new)
			checkErrors(t, err, tt.want)
		})
	}
}
