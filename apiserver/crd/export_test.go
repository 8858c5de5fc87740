package crd

import "weak"

// Compilations returns how often rules and validations have been compiled.
func (k *Kinds) Compilations() int64 { return k.compilations.Load() }

// Served returns functions that report whether parts of a definition's current resources are still reachable.
func (k *Kinds) Served(name string) map[string]func() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.definitions[name]
	r := d.serving.resources[0]
	shape := r.Scope.Defaulter.(*shape)
	return map[string]func() bool{
		"the definition": reachable(d.crd),
		"its schemas":    reachable(d.serving.schemas.versions[r.GroupVersion.Version]),
		"the shape":      reachable(shape),
		"the resource":   reachable(r),
		"the storage":    reachable(d.serving.stored),
		"the scope":      reachable(r.Scope),
	}
}

func reachable[T any](p *T) func() bool {
	w := weak.Make(p)
	return func() bool { return w.Value() != nil }
}
