package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"flyball.dev/apiserver/kinds/fieldrules"
)

const DefaultGracePeriod = int64(corev1.DefaultTerminationGracePeriodSeconds)

// SetDefaults sets the defaults of pods and pod templates.
//
//upstream:pkg/apis/core/v1.SetDefaults_PodSpec
func SetDefaults(s *corev1.PodSpec) {
	fieldrules.DefaultValue(&s.DNSPolicy, corev1.DNSClusterFirst)
	fieldrules.DefaultValue(&s.RestartPolicy, corev1.RestartPolicyAlways)
	fieldrules.DefaultValue(&s.SchedulerName, corev1.DefaultSchedulerName)
	fieldrules.DefaultPointer(&s.TerminationGracePeriodSeconds, DefaultGracePeriod)
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	fieldrules.DefaultValue(&s.ServiceAccountName, s.DeprecatedServiceAccount)
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for i := range s.Volumes {
		defaultVolume(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		defaultContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		defaultContainer(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		defaultContainer((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
	RoundUp(s.Overhead)
	if s.Resources != nil {
		RoundUp(s.Resources.Limits)
		RoundUp(s.Resources.Requests)
	}
}

// defaultContainer sets the defaults of a container.
//
//upstream:pkg/apis/core/v1.SetDefaults_Container
func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicyOf(c.Image)
	}
	fieldrules.DefaultValue(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fieldrules.DefaultValue(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		fieldrules.DefaultValue(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				fieldrules.DefaultPointer(&from.FileKeyRef.Optional, false)
			}
		}
	}
	RoundUp(c.Resources.Limits)
	RoundUp(c.Resources.Requests)
	defaultProbe(c.LivenessProbe)
	defaultProbe(c.ReadinessProbe)
	defaultProbe(c.StartupProbe)
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

//upstream:pkg/apis/core/v1.SetDefaults_Probe
func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	fieldrules.DefaultValue(&p.TimeoutSeconds, 1)
	fieldrules.DefaultValue(&p.PeriodSeconds, 10)
	fieldrules.DefaultValue(&p.SuccessThreshold, 1)
	fieldrules.DefaultValue(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		fieldrules.DefaultPointer(&p.GRPC.Service, "")
	}
}

//upstream:pkg/apis/core/v1.SetDefaults_HTTPGetAction
func defaultHTTPGet(g *corev1.HTTPGetAction) {
	if g == nil {
		return
	}
	fieldrules.DefaultValue(&g.Path, "/")
	fieldrules.DefaultValue(&g.Scheme, corev1.URISchemeHTTP)
}

//upstream:pkg/apis/core/v1.SetDefaults_ObjectFieldSelector
func defaultFieldRef(f *corev1.ObjectFieldSelector) {
	if f != nil {
		fieldrules.DefaultValue(&f.APIVersion, "v1")
	}
}

// RoundUp rounds quantities up to thousandths.
//
//upstream:pkg/apis/core/v1.SetDefaults_ResourceList
func RoundUp(list corev1.ResourceList) {
	for name, q := range list {
		if q.RoundUp(resource.Milli) {
			continue
		}
		list[name] = q
	}
}

// SetPodDefaults sets the defaults that pods have and templates do not.
//
//upstream:pkg/apis/core/v1.SetDefaults_Pod
func SetPodDefaults(s *corev1.PodSpec) {
	if g := s.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		s.TerminationGracePeriodSeconds = new(int64(1))
	}
	fieldrules.DefaultPointer(&s.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	for _, containers := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			requestLimits(&containers[i].Resources)
			if s.HostNetwork {
				for j := range containers[i].Ports {
					fieldrules.DefaultValue(&containers[i].Ports[j].HostPort, containers[i].Ports[j].ContainerPort)
				}
			}
		}
	}
}

// requestLimits defaults the requests of resources to the limits.
func requestLimits(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		addMissing(&r.Requests, name, limit)
	}
}

// FillFrom adds to a list the quantities of another one that it does not have.
func FillFrom(to, from corev1.ResourceList) {
	for k, q := range from {
		if _, ok := to[k]; !ok {
			to[k] = q.DeepCopy()
		}
	}
}
