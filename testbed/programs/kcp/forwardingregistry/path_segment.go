package forwardingregistry

import "k8s.io/apimachinery/pkg/api/validation/path"

// ValidatePathSegmentName reports why name cannot be a segment of a URL path,
// or, where prefix is set, the beginning of one. kcp v0.32.3 calls it, and the
// published framework (v0.31.2) lacks it.
func ValidatePathSegmentName(name string, prefix bool) []string {
	if prefix {
		return path.IsValidPathSegmentPrefix(name)
	}
	return path.IsValidPathSegmentName(name)
}
