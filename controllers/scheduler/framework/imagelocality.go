package framework

import "strings"

// imageLocality prefers nodes that have large images of the pod. An image counts less if few nodes have it, so that pods do not
// all go there.
//
//upstream:pkg/scheduler/framework/plugins/imagelocality.ImageLocality.Score
type imageLocality struct {
	names []string // the images of the containers and volumes
}

// The sizes between which an image makes a difference, and the larger one for each image.
//
//upstream:pkg/scheduler/framework/plugins/imagelocality.minThreshold
//upstream:pkg/scheduler/framework/plugins/imagelocality.maxContainerThreshold
const (
	leastImageSize = 23 << 20
	mostImageSize  = 1000 << 20
)

func (*imageLocality) name() string      { return "ImageLocality" }
func (*imageLocality) weight() int64     { return 1 }
func (*imageLocality) normalize([]int64) {}

//upstream:pkg/scheduler/framework/plugins/imagelocality.sumImageScores
func (l *imageLocality) preScore(c *cycle, _ []*Node) (skip bool) {
	spec := &c.pod.Spec
	for i := range spec.InitContainers {
		l.names = append(l.names, imageName(spec.InitContainers[i].Image))
	}
	for i := range spec.Containers {
		l.names = append(l.names, imageName(spec.Containers[i].Image))
	}
	for i := range spec.Volumes {
		if v := spec.Volumes[i].Image; v != nil {
			l.names = append(l.names, imageName(v.Reference))
		}
	}
	return false
}

//upstream:pkg/scheduler/framework/plugins/imagelocality.calculatePriority
//upstream:pkg/scheduler/framework/plugins/imagelocality.scaledImageScore
func (l *imageLocality) score(c *cycle, n *Node) int64 {
	sum := int64(0)
	for _, name := range l.names {
		if i := n.images[name]; i != nil {
			sum += int64(float64(i.size) * (float64(i.nodes) / float64(len(c.list))))
		}
	}
	most := int64(mostImageSize * len(l.names))
	return maxScore * (min(max(sum, leastImageSize), most) - leastImageSize) / (most - leastImageSize)
}

// imageName returns the name of an image with its tag.
//
//upstream:pkg/scheduler/framework/plugins/imagelocality.normalizedImageName
func imageName(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		name += ":latest"
	}
	return name
}
