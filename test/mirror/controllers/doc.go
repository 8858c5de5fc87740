// Package controllers holds the list of kube-controller-manager's controllers against kube-controller-manager.
package controllers
