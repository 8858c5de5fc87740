//go:build !linux

package pages

func mapSmall() {}

// Release does nothing on this system.
func Release() {}
