// Package rbac holds the authorizer of roles and bindings, the guards against escalation and the objects of every cluster against
// Kubernetes's, over random roles, bindings and users.
package rbac
