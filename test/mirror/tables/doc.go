// Package tables holds the tables of the built-in kinds and their selectable fields against Kubernetes's, over random objects.
package tables
