// Package references reads the directives with which the code of this module names the Kubernetes code that it mirrors, and finds
// the declarations in the sources of a Kubernetes release.
//
// A directive ends the doc comment of a declaration:
//
//	//upstream:pkg/apis/core/validation.validateServicePort
//
// A path without a host is a folder of k8s.io/kubernetes. The name is one declaration: Func, Type, Type.Method, Const or Var; a type
// covers its methods. A path that ends in .go is a file, and a path that ends in a slash is a package.
//
// A package or a function that mirrors nothing says why in its comment:
//
//	//upstream:none The engine of the tables is our own.
//
// Kubernetes generates a part of its validation. Our code mirrors the function Validate_T of each type T that it describes as a kind,
// without a directive. Such a function covers the generated functions and variables that it uses. A function that a directive names is
// covered there alone.
package references
