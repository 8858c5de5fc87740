package v1

import "time"

type TypeMeta struct{ Kind, APIVersion string }

type Time struct{ time.Time }

func Now() Time { return Time{} }

func (t *Time) IsZero() bool { return t == nil }

func (t *Time) Before(u *Time) bool { return false }

type OwnerReference struct{ Name string }

type ObjectMeta struct {
	Name, GenerateName, Namespace, ResourceVersion string
	Generation                                     int64
	CreationTimestamp                              Time
	DeletionTimestamp                              *Time
	Finalizers                                     []string
	Labels                                         map[string]string
	OwnerReferences                                []OwnerReference
}

func (m *ObjectMeta) GetName() string            { return m.Name }
func (m *ObjectMeta) GetNamespace() string       { return m.Namespace }
func (m *ObjectMeta) SetNamespace(n string)      { m.Namespace = n }
func (m *ObjectMeta) GetResourceVersion() string { return m.ResourceVersion }
func (m *ObjectMeta) GetGeneration() int64       { return m.Generation }

type ListMeta struct{ ResourceVersion string }

type Object interface {
	GetName() string
	GetNamespace() string
	GetResourceVersion() string
}

type ConditionStatus string

const ConditionTrue, ConditionFalse ConditionStatus = "True", "False"

type Condition struct {
	Type               string
	Status             ConditionStatus
	ObservedGeneration int64
	Reason, Message    string
}

type CreateOptions struct{}

type UpdateOptions struct{}
