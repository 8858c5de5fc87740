package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/apiserver/kinds/check"
)

// handlers checks the probes and hooks of a container that keeps running.
func handlers(container check.Field, c *corev1.Container, s *corev1.PodSpec) {
	if c.Lifecycle != nil {
		hook(container.Child("lifecycle").Child("postStart"), c.Lifecycle.PostStart, s)
		hook(container.Child("lifecycle").Child("preStop"), c.Lifecycle.PreStop, s)
	}
	if c.LivenessProbe != nil {
		probe(container.Child("livenessProbe"), c.LivenessProbe)
		onceSuccessful(container.Child("livenessProbe").Child("successThreshold"), c.LivenessProbe.SuccessThreshold)
	}
	if c.StartupProbe != nil {
		probe(container.Child("startupProbe"), c.StartupProbe)
		onceSuccessful(container.Child("startupProbe").Child("successThreshold"), c.StartupProbe.SuccessThreshold)
	}
	if p := c.ReadinessProbe; p != nil {
		probe(container.Child("readinessProbe"), p)
		if seconds := p.TerminationGracePeriodSeconds; seconds != nil {
			container.Child("readinessProbe").Child("terminationGracePeriodSeconds").Invalid(*seconds, "must not be set for readinessProbes")
		}
	}
}

func onceSuccessful(at check.Field, threshold int32) {
	if threshold != 1 {
		at.Invalid(threshold, "must be 1")
	}
}

//upstream:pkg/apis/core/validation.validateProbe
func probe(at check.Field, p *corev1.Probe) {
	handler(at, actions{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC})
	check.NonNegative(at.Child("initialDelaySeconds"), &p.InitialDelaySeconds)
	check.NonNegative(at.Child("timeoutSeconds"), &p.TimeoutSeconds)
	check.NonNegative(at.Child("periodSeconds"), &p.PeriodSeconds)
	check.NonNegative(at.Child("successThreshold"), &p.SuccessThreshold)
	check.NonNegative(at.Child("failureThreshold"), &p.FailureThreshold)
	if g := p.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		at.Child("terminationGracePeriodSeconds").Invalid(*g, "must be greater than 0")
	}
}

//upstream:pkg/apis/core/validation.validateLifecycle
func hook(at check.Field, h *corev1.LifecycleHandler, s *corev1.PodSpec) {
	if h == nil {
		return
	}
	handler(at, actions{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep})
	alone := h.Exec == nil && h.HTTPGet == nil && h.TCPSocket == nil
	if grace := s.TerminationGracePeriodSeconds; h.Sleep != nil && alone && grace != nil &&
		(h.Sleep.Seconds < 0 || h.Sleep.Seconds > *grace) {
		at.Child("sleep").Invalidf(h.Sleep.Seconds, "must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace)
	}
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
func handler(at check.Field, a actions) {
	union := check.Union{{"exec", a.exec != nil}, {"httpGet", a.http != nil}, {"tcpSocket", a.tcp != nil},
		{"grpc", a.grpc != nil}, {"sleep", a.sleep != nil}}
	union.ForbidOthers(at, "may not specify more than 1 handler type")
	switch first, action := union.First(), at.Child(union.First()); first {
	case "":
		at.Required("must specify a handler type")
	case "exec":
		if len(a.exec.Command) == 0 {
			action.Child("command").Required("")
		}
	case "httpGet":
		httpGet(action, a.http)
	case "tcpSocket":
		check.PortOrName(action.Child("port"), a.tcp.Port)
	case "grpc":
		check.Port(action.Child("port"), a.grpc.Port)
	}
}

//upstream:pkg/apis/core/validation.validateHTTPGetAction
func httpGet(at check.Field, g *corev1.HTTPGetAction) {
	check.Required(at.Child("path"), g.Path)
	check.PortOrName(at.Child("port"), g.Port)
	check.OneOf(at.Child("scheme"), g.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for _, h := range g.HTTPHeaders {
		check.Messages(at.Child("httpHeaders"), h.Name, validation.IsHTTPHeaderName(strings.TrimSpace(h.Name)))
	}
}
