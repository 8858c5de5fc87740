package v1alpha1

import (
	"strconv"
	"strings"

	"flyball.dev/ctrl/conversion"
	v1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/examples/versions/internal/annotations"
)

var _ conversion.Convertible = &Proxy{}

// ConvertTo writes this Proxy into the hub. It does not fail for any content: an object that cannot
// be converted can neither be read nor migrated. What is wrong with it is for validation to say.
func (p *Proxy) ConvertTo(hub conversion.Hub) error {
	src, dst := p.DeepCopy(), hub.(*v1.Proxy)
	balancing := src.Spec.Balancing
	annotations.Take(src, v1.BalancingAnnotation)
	if balancing == BalancingRandom {
		annotations.Put(src, v1.BalancingAnnotation, string(balancing))
		balancing = BalancingRoundRobin
	}
	retries := annotations.TakeJSON[v1.Retries](src, v1.RetriesAnnotation)
	host, port := splitTarget(src.Spec.Target)
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec = v1.ProxySpec{
		Host:           host,
		Port:           port,
		MaxConnections: src.Spec.Connections,
		Balancing:      v1.Balancing(balancing),
		Retries:        retries,
	}
	dst.Status = v1.ProxyStatus(src.Status)
	return nil
}

// ConvertFrom overwrites this Proxy with the hub.
func (p *Proxy) ConvertFrom(hub conversion.Hub) error {
	src := hub.(*v1.Proxy).DeepCopy()
	balancing := Balancing(src.Spec.Balancing)
	removed := Balancing(annotations.Take(src, v1.BalancingAnnotation))
	if removed == BalancingRandom && balancing == BalancingRoundRobin {
		balancing = removed
	}
	if err := annotations.PutJSON(src, v1.RetriesAnnotation, src.Spec.Retries); err != nil {
		return err
	}
	p.ObjectMeta = src.ObjectMeta
	p.Spec = ProxySpec{
		Target:      joinTarget(src.Spec.Host, src.Spec.Port),
		Connections: src.Spec.MaxConnections,
		Balancing:   balancing,
	}
	p.Status = ProxyStatus(src.Status)
	return nil
}

// splitTarget splits a target into the host and the port, which is nil if there is none. Whatever
// joinTarget would not give back unchanged is a host as a whole.
func splitTarget(target string) (host string, port *int32) {
	colon := strings.LastIndexByte(target, ':')
	if colon < 0 {
		return target, nil
	}
	n, err := strconv.ParseInt(target[colon+1:], 10, 32)
	if err != nil || strconv.FormatInt(n, 10) != target[colon+1:] {
		return target, nil
	}
	return target[:colon], new(int32(n))
}

// joinTarget returns the target for a host and a port.
func joinTarget(host string, port *int32) string {
	if port == nil {
		return host
	}
	return host + ":" + strconv.Itoa(int(*port))
}
