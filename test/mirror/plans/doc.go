// Package plans holds what our controllers and our scheduler do against Kubernetes's, on generated worlds.
package plans
