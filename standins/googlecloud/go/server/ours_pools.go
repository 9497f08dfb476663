package main

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"strings"
	"sync"

	pools "github.com/GoogleCloudPlatform/k8s-config-connector/mockgcp/generated/mockgcp/container/v1beta1"
)

// What mockgcp's clusters lack: an endpoint of their own, and for their node pools instance groups of their own, a size
// that these have too, and other labels.

var (
	groupsPath = regexp.MustCompile(`^/compute/v1/projects/[^/]+/zones/[^/]+/instanceGroupManagers$`)
	poolsPath  = regexp.MustCompile(`^/v1(?:beta1)?/(projects/([^/]+)/locations/[^/]+/clusters/([^/]+))/nodePools$`)
	poolPath   = regexp.MustCompile(`^/v1(?:beta1)?/(projects/[^/]+/locations/[^/]+/clusters/[^/]+/nodePools/[^/:]+)(:setSize)?$`)
	readPath   = regexp.MustCompile(`^/v1(?:beta1)?/(projects/([^/]+)/locations/[^/]+/clusters/[^/:]+)$`)
	groupNames sync.Map // of every pool that was ever made
)

const (
	container = "https://container.googleapis.com/v1/"
	compute   = "https://compute.googleapis.com/compute/v1/"
	selfLinks = "https://www.googleapis.com/compute/v1/"
)

func (c *cloud) servePools(w http.ResponseWriter, r *http.Request, body []byte) bool {
	if groupsPath.MatchString(r.URL.Path) && r.Method == http.MethodGet {
		c.listGroups(w, r)
		return true
	}
	if found := poolsPath.FindStringSubmatch(r.URL.Path); found != nil && r.Method == http.MethodPost {
		given := parse(body)
		sub(given, "nodePool")["instanceGroupUrls"] = c.nameGroups(found[1], found[2], found[3], sub(given, "nodePool"))
		changed, _ := json.Marshal(given)
		return c.serveMock(w, r, changed)
	}
	if found := readPath.FindStringSubmatch(r.URL.Path); found != nil && r.Method == http.MethodGet {
		c.readCluster(w, r, found[1], found[2])
		return true
	}
	found := poolPath.FindStringSubmatch(r.URL.Path)
	switch {
	case found == nil:
		return false
	case found[2] != "":
		return c.resizePool(w, r, found[1], parse(body))
	case r.Method == http.MethodPut:
		return c.relabelPool(w, r, found[1], parse(body))
	}
	return false
}

// readCluster gives each cluster a DNS endpoint of its own. The mock's is the same for all clusters of a region, and is no
// name of a host, as it has a placeholder for the project's number.
func (c *cloud) readCluster(w http.ResponseWriter, r *http.Request, cluster, project string) {
	recorder := newRecorder()
	c.serveMock(recorder, r, nil)
	reply := parse(recorder.Body.Bytes())
	endpoint, _ := within(reply, "controlPlaneEndpointsConfig", "dnsEndpointConfig").(map[string]any)
	if _, region, found := strings.Cut(text(endpoint, "endpoint"), "."); found {
		_, owner := c.call(http.MethodGet, "https://cloudresourcemanager.googleapis.com/v1/projects/"+project, nil)
		endpoint["endpoint"] = fmt.Sprintf("gke-%08x-%s.%s", crc32.ChecksumIEEE([]byte(cluster)), text(owner, "projectNumber"), region)
	}
	answer(w, recorder.Code, reply)
}

// listGroups lists the instance groups of pools, which the mock makes but does not list.
func (c *cloud) listGroups(w http.ResponseWriter, r *http.Request) {
	items := []any{}
	groupNames.Range(func(name, _ any) bool {
		if code, reply := c.call(http.MethodGet, "https://compute.googleapis.com"+r.URL.Path+"/"+name.(string), nil); code == http.StatusOK {
			items = append(items, reply)
		}
		return true
	})
	answer(w, http.StatusOK, map[string]any{"kind": "compute#instanceGroupManagerList", "items": items})
}

// nameGroups returns the addresses of the groups that GKE would make for a pool: one in each of its zones, and of no other
// cluster. The mock makes one, whose name has only the pool's in it: pools of one name in two clusters would share it, and
// the deletion of one would leave the other without nodes.
func (c *cloud) nameGroups(cluster, project, short string, pool map[string]any) []any {
	name := text(pool, "name")
	zones, _ := pool["locations"].([]any)
	if len(zones) == 0 {
		_, reply := c.call(http.MethodGet, container+cluster, nil)
		zones, _ = reply["locations"].([]any)
	}
	group := fmt.Sprintf("gke-%.20s-%.20s-%08x-grp", short, name, crc32.ChecksumIEEE([]byte(cluster+"/"+name)))
	groupNames.Store(group, true)
	found := []any{}
	for _, zone := range zones {
		if strings.Count(fmt.Sprint(zone), "-") == 1 { // the mock's clusters that name no zone have their region there
			zone = fmt.Sprint(zone, "-a")
		}
		found = append(found, fmt.Sprintf("%sprojects/%s/zones/%s/instanceGroupManagers/%s", selfLinks, project, zone, group))
	}
	return found
}

// resizePool sets the size of the pool's groups, where Terraform and gcloud read it. The mock writes it over the number of
// nodes that the pool began with, which GKE keeps.
func (c *cloud) resizePool(w http.ResponseWriter, r *http.Request, name string, given map[string]any) bool {
	_, pool := c.call(http.MethodGet, container+name, nil)
	groups, _ := pool["instanceGroupUrls"].([]any)
	size := number(given, "nodeCount")
	for _, group := range groups {
		c.call(http.MethodPatch, compute+strings.TrimPrefix(fmt.Sprint(group), selfLinks),
			map[string]any{"targetSize": size, "currentActions": map[string]any{"none": size}})
	}
	given["nodeCount"] = number(pool, "initialNodeCount")
	changed, _ := json.Marshal(given)
	return c.serveMock(w, r, changed)
}

// relabelPool replaces the labels of nodes, or of their machines: of these, what is not named goes.
func (c *cloud) relabelPool(w http.ResponseWriter, r *http.Request, name string, given map[string]any) bool {
	err := c.rewrite(name, &pools.NodePool{}, func(pool map[string]any) {
		for _, kind := range []string{"labels", "resourceLabels"} {
			if _, found := given[kind]; found {
				sub(pool, "config")[kind] = sub(sub(given, kind), "labels")
				delete(given, kind)
			}
		}
	})
	if err != nil {
		return false // the mock says what is wrong
	}
	changed, _ := json.Marshal(given)
	return c.serveMock(w, r, changed)
}
