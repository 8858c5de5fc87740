package kinds

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// handlers checks the probes and hooks of a container that goes on running.
func handlers(c *corev1.Container, s *corev1.PodSpec, w *where) field.ErrorList {
	var errs field.ErrorList
	if c.Lifecycle != nil {
		at := w.at("lifecycle")
		errs = append(errs, hook(c.Lifecycle.PostStart, s, &at, "postStart")...)
		errs = append(errs, hook(c.Lifecycle.PreStop, s, &at, "preStop")...)
	}
	if c.LivenessProbe != nil {
		at := w.at("livenessProbe")
		errs = append(errs, probe(c.LivenessProbe, &at)...)
		errs = append(errs, onceSuccessful(c.LivenessProbe, &at)...)
	}
	if c.StartupProbe != nil {
		at := w.at("startupProbe")
		errs = append(errs, probe(c.StartupProbe, &at)...)
		errs = append(errs, onceSuccessful(c.StartupProbe, &at)...)
	}
	if p := c.ReadinessProbe; p != nil {
		at := w.at("readinessProbe")
		errs = append(errs, probe(p, &at)...)
		if p.TerminationGracePeriodSeconds != nil {
			errs = append(errs, field.Invalid(at.of("terminationGracePeriodSeconds"), *p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
		}
	}
	return errs
}

func onceSuccessful(p *corev1.Probe, w *where) field.ErrorList {
	if p.SuccessThreshold == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(w.of("successThreshold"), p.SuccessThreshold, "must be 1")}
}

func probe(p *corev1.Probe, w *where) field.ErrorList {
	errs := handler(actions{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC}, w)
	errs = append(errs, nonNegative(p.InitialDelaySeconds, w, "initialDelaySeconds")...)
	errs = append(errs, nonNegative(p.TimeoutSeconds, w, "timeoutSeconds")...)
	errs = append(errs, nonNegative(p.PeriodSeconds, w, "periodSeconds")...)
	errs = append(errs, nonNegative(p.SuccessThreshold, w, "successThreshold")...)
	errs = append(errs, nonNegative(p.FailureThreshold, w, "failureThreshold")...)
	if g := p.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		errs = append(errs, field.Invalid(w.of("terminationGracePeriodSeconds"), *g, "must be greater than 0"))
	}
	return errs
}

func hook(h *corev1.LifecycleHandler, s *corev1.PodSpec, w *where, name string) field.ErrorList {
	if h == nil {
		return nil
	}
	at := w.at(name)
	errs := handler(actions{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}, &at)
	if h.Sleep != nil && s.TerminationGracePeriodSeconds != nil {
		if grace := *s.TerminationGracePeriodSeconds; h.Sleep.Seconds < 0 || h.Sleep.Seconds > grace {
			errs = append(errs, field.Invalid(at.of("sleep").Child("seconds"), h.Sleep.Seconds, "must be non-negative and less than terminationGracePeriodSeconds ("+decimal(grace)+")"))
		}
	}
	return errs
}

// actions are what a probe or a hook can do; it does exactly one of them.
type actions struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func handler(a actions, w *where) field.ErrorList {
	var errs field.ErrorList
	first := ""
	for _, h := range [...]struct {
		name string
		is   bool
	}{{"exec", a.exec != nil}, {"httpGet", a.http != nil}, {"tcpSocket", a.tcp != nil}, {"grpc", a.grpc != nil}, {"sleep", a.sleep != nil}} {
		switch {
		case h.is && first == "":
			first = h.name
		case h.is:
			errs = append(errs, field.Forbidden(w.of(h.name), "may not specify more than 1 handler type"))
		}
	}
	at := w.at(first)
	switch first {
	case "":
		errs = append(errs, field.Required(w.path(), "must specify a handler type"))
	case "exec":
		if len(a.exec.Command) == 0 {
			errs = append(errs, field.Required(at.of("command"), ""))
		}
	case "httpGet":
		errs = append(errs, httpGet(a.http, &at)...)
	case "tcpSocket":
		errs = append(errs, portOrName(a.tcp.Port, &at, "port")...)
	case "grpc":
		errs = append(errs, port(a.grpc.Port, &at, "port")...)
	}
	return errs
}

func httpGet(g *corev1.HTTPGetAction, w *where) field.ErrorList {
	errs := required(g.Path, w, "path")
	errs = append(errs, portOrName(g.Port, w, "port")...)
	errs = append(errs, oneOf(g.Scheme, w, "scheme", corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for _, h := range g.HTTPHeaders {
		for _, m := range validation.IsHTTPHeaderName(strings.TrimSpace(h.Name)) {
			errs = append(errs, field.Invalid(w.of("httpHeaders"), h.Name, m))
		}
	}
	return errs
}
