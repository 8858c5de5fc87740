package endpoints

//lint:file-ignore SA1019 The controllers read and write the deprecated kind Endpoints.

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/dump"
)

// NoPort stands for the port of addresses without ports.
var NoPort = corev1.EndpointPort{Port: -1}

// addressKey identifies an address. Pods may share an IP.
type addressKey struct {
	ip  string
	uid types.UID
}

// Packer collects addresses by their ports. The zero value is empty.
//
//upstream:pkg/api/v1/endpoints.mapAddressByPort
type Packer struct {
	addresses map[addressKey]*corev1.EndpointAddress
	byPort    map[corev1.EndpointPort]map[addressKey]bool // whether the address is ready there
}

// Add adds an address, which the Packer keeps. If it is there twice, with one port, it is ready if both are.
func (p *Packer) Add(port corev1.EndpointPort, a *corev1.EndpointAddress, ready bool) {
	if p.byPort == nil {
		p.addresses, p.byPort = map[addressKey]*corev1.EndpointAddress{}, map[corev1.EndpointPort]map[addressKey]bool{}
	}
	k := addressKey{ip: a.IP}
	if a.TargetRef != nil {
		k.uid = a.TargetRef.UID
	}
	if p.addresses[k] == nil {
		p.addresses[k] = a
	}
	if p.byPort[port] == nil {
		p.byPort[port] = map[addressKey]bool{}
	}
	if was, found := p.byPort[port][k]; !found || was {
		p.byPort[port][k] = ready
	}
}

// Repack returns subsets in the canonical layout.
//
//upstream:pkg/api/v1/endpoints.RepackSubsets
func Repack(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	p := Packer{}
	for i := range subsets {
		s := &subsets[i]
		ports := s.Ports
		if len(ports) == 0 {
			ports = []corev1.EndpointPort{NoPort}
		}
		for _, port := range ports {
			for j := range s.Addresses {
				p.Add(port, &s.Addresses[j], true)
			}
			for j := range s.NotReadyAddresses {
				p.Add(port, &s.NotReadyAddresses[j], false)
			}
		}
	}
	return p.Subsets()
}

// Subsets returns the canonical layout: the ports with the same addresses are a subset.
//
//upstream:pkg/api/v1/endpoints.RepackSubsets
func (p *Packer) Subsets() []corev1.EndpointSubset {
	byAddresses := map[string]*corev1.EndpointSubset{}
	var all []*corev1.EndpointSubset
	for port, addresses := range p.byPort {
		s := p.subset(addresses)
		id := addressesOf(s)
		if byAddresses[id] == nil {
			byAddresses[id] = s
			all = append(all, s)
		}
		if port.Port > 0 {
			byAddresses[id].Ports = append(byAddresses[id].Ports, port)
		}
	}
	var subsets []corev1.EndpointSubset
	for _, s := range all {
		sortByHash(s.Ports)
		subsets = append(subsets, *s)
	}
	sortByHash(subsets)
	return subsets
}

// subset returns a subset of addresses, sorted.
//
//upstream:pkg/api/v1/endpoints.SortSubsets
func (p *Packer) subset(addresses map[addressKey]bool) *corev1.EndpointSubset {
	s := &corev1.EndpointSubset{}
	for k, ready := range addresses {
		if ready {
			s.Addresses = append(s.Addresses, *p.addresses[k])
		} else {
			s.NotReadyAddresses = append(s.NotReadyAddresses, *p.addresses[k])
		}
	}
	slices.SortFunc(s.Addresses, compareAddresses)
	slices.SortFunc(s.NotReadyAddresses, compareAddresses)
	return s
}

// compareAddresses compares the IPs as text.
//
//upstream:pkg/api/v1/endpoints.LessEndpointAddress
func compareAddresses(a, b corev1.EndpointAddress) int {
	uid := func(a corev1.EndpointAddress) string {
		if a.TargetRef == nil {
			return ""
		}
		return string(a.TargetRef.UID)
	}
	return cmp.Or(strings.Compare(a.IP, b.IP), strings.Compare(uid(a), uid(b)))
}

// addressesOf identifies the addresses of a subset.
func addressesOf(s *corev1.EndpointSubset) string {
	var b strings.Builder
	for i, list := range [][]corev1.EndpointAddress{s.Addresses, s.NotReadyAddresses} {
		for _, a := range list {
			fmt.Fprintf(&b, "%d %s ", i, a.IP)
			if a.TargetRef != nil {
				b.WriteString(string(a.TargetRef.UID))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// sortByHash sorts as Kubernetes does.
//
//upstream:pkg/util/hash.DeepHashObject
//upstream:pkg/api/v1/endpoints.SortSubsets
func sortByHash[T any](list []T) {
	if len(list) < 2 {
		return
	}
	type hashed struct {
		hash string
		of   T
	}
	all := make([]hashed, len(list))
	for i, of := range list {
		h := fnv.New128a()
		h.Write([]byte(dump.ForHash(of)))
		all[i] = hashed{string(h.Sum(nil)), of}
	}
	slices.SortFunc(all, func(a, b hashed) int { return strings.Compare(a.hash, b.hash) })
	for i := range all {
		list[i] = all[i].of
	}
}
