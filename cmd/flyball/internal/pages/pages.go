// Package pages limits the memory for the pages of the program file. Only the start needs most of the code and data of
// flyball. An idle control plane uses 34 MiB with this package, and 123 MiB without it. The peak of its start is 41 to 51
// MiB if the kernel maps single pages, and up to 90 MiB if it does not.
//
// The package is initialized before most other packages of flyball, because it imports little and Go initializes
// packages in the order of their paths as far as dependencies permit.
package pages

// The initialization of packages runs through most of the file.
func init() {
	mapSmall()
	mapSingly()
}
