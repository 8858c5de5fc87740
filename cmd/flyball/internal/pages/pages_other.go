//go:build !linux

package pages

func mapSmall()  {}
func mapSingly() {}

// Singly returns false on this system.
func Singly() bool { return false }

// Release does nothing on this system.
func Release() {}
