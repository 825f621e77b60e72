package ownership

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"warrantgate.dev/internal/message"
)

// RegionPattern matches the regions of CloudSigma, which are a label of a host name. A matching text cannot change the structure of a URL as part
// of the host or of a path segment.
var RegionPattern = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

const (
	// RegionNotAllowed is the reason of a RegionError.
	RegionNotAllowed = "RegionNotAllowed"
	// RegionMalformed is what follows the region in quotes in the message about an invalid one.
	RegionMalformed = ` is not a valid region: it must consist of 1 to 63 lower-case letters, digits and dashes, such as "zrh"`
	// RegionNotConfigured is what follows another region than the configured ones. These and a parenthesis follow it.
	RegionNotConfigured = " is none of those configured ("
)

// RegionError means that the region of a cluster is invalid or not allowed.
type RegionError struct {
	// Region is the region of the cluster. Allowed are the configured regions. If it is empty, every valid name is allowed.
	Region  string
	Allowed []string
}

// CheckRegion returns a *RegionError unless a region of CloudSigma is valid and, if some are allowed, one of these. The provider puts a region
// unchecked into the name of the host that gets its tokens.
func CheckRegion(region string, allowed []string) error {
	if RegionPattern.MatchString(region) && (len(allowed) == 0 || slices.Contains(allowed, region)) {
		return nil
	}
	return &RegionError{Region: region, Allowed: allowed}
}

// Error implements error.
func (e *RegionError) Error() string {
	region := fmt.Sprintf("%q", message.Value(e.Region))
	if len(e.Allowed) == 0 {
		return region + RegionMalformed
	}
	return "region " + region + RegionNotConfigured + strings.Join(e.Allowed, ", ") + ")"
}
