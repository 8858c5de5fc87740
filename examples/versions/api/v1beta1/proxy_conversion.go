package v1beta1

import (
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
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec = v1.ProxySpec{
		Host:           src.Spec.Host,
		Port:           src.Spec.Port,
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
		Host:        src.Spec.Host,
		Port:        src.Spec.Port,
		Connections: src.Spec.MaxConnections,
		Balancing:   balancing,
	}
	p.Status = ProxyStatus(src.Status)
	return nil
}
