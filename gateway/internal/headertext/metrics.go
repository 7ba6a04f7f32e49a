package headertext

import "fmt"

// Metrics returns query metrics in the form of the protocol.
func Metrics(millis float64, read, results int64, bytes int64) string {
	return fmt.Sprintf("totalExecutionTimeInMs=%.2f;queryCompileTimeInMs=0.00;queryLogicalPlanBuildTimeInMs=0.00;"+
		"queryPhysicalPlanBuildTimeInMs=0.00;queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs=%.2f;indexLookupTimeInMs=0.00;"+
		"instructionCount=0;documentLoadTimeInMs=0.00;systemFunctionExecuteTimeInMs=0.00;userFunctionExecuteTimeInMs=0.00;"+
		"retrievedDocumentCount=%d;retrievedDocumentSize=%d;outputDocumentCount=%d;outputDocumentSize=0;writeOutputTimeInMs=0.00;"+
		"indexUtilizationRatio=1.00", millis, millis, read, bytes, results)
}
