// Package quota holds what our objects use of resource quotas, and the scopes that they match, against Kubernetes's evaluators.
package quota
