package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// handlers checks the probes and hooks of a container that keeps running.
func handlers(c *corev1.Container, s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Lifecycle != nil {
		at := fldPath.Child("lifecycle")
		errs = append(errs, hook(c.Lifecycle.PostStart, s, &at, "postStart")...)
		errs = append(errs, hook(c.Lifecycle.PreStop, s, &at, "preStop")...)
	}
	if c.LivenessProbe != nil {
		at := fldPath.Child("livenessProbe")
		errs = append(errs, probe(c.LivenessProbe, &at)...)
		errs = append(errs, onceSuccessful(c.LivenessProbe, &at)...)
	}
	if c.StartupProbe != nil {
		at := fldPath.Child("startupProbe")
		errs = append(errs, probe(c.StartupProbe, &at)...)
		errs = append(errs, onceSuccessful(c.StartupProbe, &at)...)
	}
	if p := c.ReadinessProbe; p != nil {
		at := fldPath.Child("readinessProbe")
		errs = append(errs, probe(p, &at)...)
		if p.TerminationGracePeriodSeconds != nil {
			errs = append(errs, field.Invalid(at.ChildField("terminationGracePeriodSeconds"),
				*p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
		}
	}
	return errs
}

func onceSuccessful(p *corev1.Probe, fldPath *fieldrules.Path) field.ErrorList {
	if p.SuccessThreshold == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField("successThreshold"), p.SuccessThreshold, "must be 1")}
}

//upstream:pkg/apis/core/validation.validateProbe
func probe(p *corev1.Probe, fldPath *fieldrules.Path) field.ErrorList {
	errs := handler(actions{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC}, fldPath)
	errs = append(errs, fieldrules.NonNegative(p.InitialDelaySeconds, fldPath, "initialDelaySeconds")...)
	errs = append(errs, fieldrules.NonNegative(p.TimeoutSeconds, fldPath, "timeoutSeconds")...)
	errs = append(errs, fieldrules.NonNegative(p.PeriodSeconds, fldPath, "periodSeconds")...)
	errs = append(errs, fieldrules.NonNegative(p.SuccessThreshold, fldPath, "successThreshold")...)
	errs = append(errs, fieldrules.NonNegative(p.FailureThreshold, fldPath, "failureThreshold")...)
	if g := p.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		errs = append(errs, field.Invalid(fldPath.ChildField("terminationGracePeriodSeconds"), *g, "must be greater than 0"))
	}
	return errs
}

//upstream:pkg/apis/core/validation.validateLifecycle
func hook(h *corev1.LifecycleHandler, s *corev1.PodSpec, fldPath *fieldrules.Path, name string) field.ErrorList {
	if h == nil {
		return nil
	}
	at := fldPath.Child(name)
	errs := handler(actions{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}, &at)
	alone := h.Exec == nil && h.HTTPGet == nil && h.TCPSocket == nil
	if h.Sleep != nil && alone && s.TerminationGracePeriodSeconds != nil {
		if grace := *s.TerminationGracePeriodSeconds; h.Sleep.Seconds < 0 || h.Sleep.Seconds > grace {
			errs = append(errs, field.Invalid(at.ChildField("sleep"), h.Sleep.Seconds,
				"must be non-negative and less than terminationGracePeriodSeconds ("+fieldrules.Decimal(grace)+")"))
		}
	}
	return errs
}

// actions are the actions of a probe or a hook, which has exactly one.
type actions struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

// handler checks that a probe or a hook has exactly one action, and the action.
//
//upstream:pkg/apis/core/validation.validateHandler
func handler(a actions, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	first := ""
	for _, h := range [...]struct {
		name string
		is   bool
	}{{"exec", a.exec != nil}, {"httpGet", a.http != nil}, {"tcpSocket", a.tcp != nil}, {"grpc", a.grpc != nil},
		{"sleep", a.sleep != nil}} {
		switch {
		case h.is && first == "":
			first = h.name
		case h.is:
			errs = append(errs, field.Forbidden(fldPath.ChildField(h.name), "may not specify more than 1 handler type"))
		}
	}
	at := fldPath.Child(first)
	switch first {
	case "":
		errs = append(errs, field.Required(fldPath.Field(), "must specify a handler type"))
	case "exec":
		if len(a.exec.Command) == 0 {
			errs = append(errs, field.Required(at.ChildField("command"), ""))
		}
	case "httpGet":
		errs = append(errs, httpGet(a.http, &at)...)
	case "tcpSocket":
		errs = append(errs, fieldrules.PortOrName(a.tcp.Port, &at, "port")...)
	case "grpc":
		errs = append(errs, fieldrules.Port(a.grpc.Port, &at, "port")...)
	}
	return errs
}

//upstream:pkg/apis/core/validation.validateHTTPGetAction
func httpGet(g *corev1.HTTPGetAction, fldPath *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Required(g.Path, fldPath, "path")
	errs = append(errs, fieldrules.PortOrName(g.Port, fldPath, "port")...)
	errs = append(errs, fieldrules.OneOf(g.Scheme, fldPath, "scheme", corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for _, h := range g.HTTPHeaders {
		for _, m := range validation.IsHTTPHeaderName(strings.TrimSpace(h.Name)) {
			errs = append(errs, field.Invalid(fldPath.ChildField("httpHeaders"), h.Name, m))
		}
	}
	return errs
}
